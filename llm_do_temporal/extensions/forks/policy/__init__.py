"""Reuse of what another run has done: content keys, and the changes and the cost of a fork."""
