"""Reaching a Temporal server, and what it says when it cannot answer."""
