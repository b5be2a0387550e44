"""Runs on a real development server: the place where they go on, and what tests start and read there."""
