"""Models: their names, the choice among them, and the part of a conversation that a model is sent."""
