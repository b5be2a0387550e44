"""The scripted model: requests as a script sees them, and its answers."""
