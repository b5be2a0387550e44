"""Experiments of evaluations: which there are, what came of them, their comparison, and other programs' formats."""
