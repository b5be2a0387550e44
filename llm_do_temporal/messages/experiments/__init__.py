"""Runs that try something: forks of other runs, and the cases of evaluations."""
