"""Hands of layers: the files below them, overlays for commands, and the commit that makes changes real."""
