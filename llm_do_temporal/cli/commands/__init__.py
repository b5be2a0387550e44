"""Commands: one module each, or one for a few commands of one subject."""
