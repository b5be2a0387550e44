"""Evaluations, for tests."""
