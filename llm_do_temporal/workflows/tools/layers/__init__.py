"""Layers on the side of workflows: the layer that an invocation works on, and the review of its changes."""
