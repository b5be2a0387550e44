"""Redaction of texts: no keys, no hidden characters, no text that acts."""
