"""Evaluations: the workflow `LlmDoEvaluation`."""
