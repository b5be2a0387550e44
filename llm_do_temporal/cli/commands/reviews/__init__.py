"""Command about reviews: the changes of a run, looked at and answered in parts."""
