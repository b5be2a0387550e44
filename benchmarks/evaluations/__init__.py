"""Made-up comparisons of two versions of a worker, that the verdicts on them are held against."""
