"""Commands of the doors for other programs, of tokens, and of schedules."""
