"""Differences between two runs: what each has done, where they part first, what came of it."""
