"""Evaluation files: `NAME.eval.yaml`, read into what policy knows as an evaluation."""
