"""Workshops and files on disk, harmless and hostile."""
