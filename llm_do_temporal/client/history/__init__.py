"""Histories, as the server has them: events, values, local activities, questions."""
