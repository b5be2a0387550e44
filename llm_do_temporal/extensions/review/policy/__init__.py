"""Decisions about reviewed changes; pure: no file, clock, network or framework."""
