"""Help for tests of reviews."""
