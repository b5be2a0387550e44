"""Looking after a workshop: what nothing needs any more, deleted runs, what is missing."""
