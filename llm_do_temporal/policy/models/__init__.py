"""Names of models, the choice among them, and how much of a conversation one is told."""
