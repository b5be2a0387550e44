"""The embedded server of a workshop and the processes that serve it."""
