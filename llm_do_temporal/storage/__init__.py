"""Bytes kept outside Temporal."""
