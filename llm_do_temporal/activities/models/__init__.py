"""Turns of models: built, prepared, sent, bounded, priced, and put into words that a history can keep."""
