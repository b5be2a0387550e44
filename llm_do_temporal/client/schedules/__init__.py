"""Schedules: runs that begin by themselves."""
