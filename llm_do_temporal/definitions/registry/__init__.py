"""Definitions as runs get them: found, checked, complete."""
