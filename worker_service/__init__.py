"""The deployable process: a worker service for one workshop."""
