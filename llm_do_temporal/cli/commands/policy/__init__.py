"""Commands about what needs no person: grants of a run."""
