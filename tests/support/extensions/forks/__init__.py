"""Forks of runs, for tests."""
