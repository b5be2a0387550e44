"""Evaluations: the activities of `LlmDoEvaluation`."""
