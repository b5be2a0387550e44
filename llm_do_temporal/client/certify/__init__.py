"""Crash proof: one run is recorded, then done again with something killed right after each event of its history."""
