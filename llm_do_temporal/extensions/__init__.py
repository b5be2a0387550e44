"""Capabilities that can be taken out: each is a folder with all that is its own."""
