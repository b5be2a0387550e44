"""Admission to the page: users, tokens, sessions, and the checks that every request passes."""
