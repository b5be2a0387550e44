"""Evaluations: cases and their evaluators, scores, thresholds, the identity of an experiment, comparison of two."""
