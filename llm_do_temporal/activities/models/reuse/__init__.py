"""Reuse of model turns by forks."""
