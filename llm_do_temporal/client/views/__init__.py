"""Runs as people look at them: lists, trees, transcripts, what waits and what is under way."""
