"""Reuse of tool calls by forks."""
