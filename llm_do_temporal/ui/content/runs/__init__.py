"""Runs and conversations as the page shows them: timelines, files, pairs of entries, lines for what is folded."""
