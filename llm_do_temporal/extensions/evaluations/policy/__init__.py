"""Evaluations: cases and their evaluators, scores, thresholds, the identity of an experiment, comparison of two."""

EVALUATION_SUFFIX = ".eval.yaml"
"""Ending of evaluation files."""
