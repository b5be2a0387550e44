"""The scripted model: what a script sees of a request, and how it answers."""
