"""Staying with runs at a terminal: the live screen, the inbox, questions, keys."""
