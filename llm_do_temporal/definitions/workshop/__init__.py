"""`workshop.yaml`: its keys, and what a run takes from it."""
