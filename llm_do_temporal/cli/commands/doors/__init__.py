"""Commands of the doors for other programs."""
