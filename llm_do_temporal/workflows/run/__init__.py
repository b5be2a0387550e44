"""Run: the desk, its budget, its notifications and batches."""
