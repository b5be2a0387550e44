"""Commands: run for a worker or as the check of a review, in the workshop's files or over a layer."""
