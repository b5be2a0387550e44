"""Servers that the product talks to or that talk to it, as tests need them."""
