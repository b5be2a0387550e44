"""For the kitchen."""
