"""Forks of runs: the record that a fork reuses, its changes, and what it will cost."""
