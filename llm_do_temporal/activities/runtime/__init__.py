"""Surroundings of every activity: heartbeats, spans, stand-ins and failures."""
