"""Texts without keys, without hidden characters, and without anything that acts."""
