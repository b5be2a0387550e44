"""One run: the desk, its book of limits, its notifications and batches."""
