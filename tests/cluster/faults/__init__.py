"""Faults of a whole deployment, in mid-run: nothing is lost, nothing happens twice, or a person is asked."""
