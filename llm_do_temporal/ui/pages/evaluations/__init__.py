"""Pages of evaluations: their experiments over time, one experiment, and two beside each other."""
