"""One module a command, or a few commands of one subject."""
