"""Pages about what needs a person: the rules of the workshop."""
