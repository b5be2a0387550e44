"""Workshops: the keys of `workshop.yaml`, and the settings that a run takes from it."""
