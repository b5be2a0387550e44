"""Temporal's side of workflow code: activities, children, signals, failures, spans."""
