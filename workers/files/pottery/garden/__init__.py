"""For the garden."""
