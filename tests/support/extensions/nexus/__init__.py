"""Callers of Nexus."""
