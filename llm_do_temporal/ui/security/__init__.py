"""Who may come in, by which door, and what every request passes."""
