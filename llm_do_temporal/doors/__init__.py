"""Doors for other programs: each translates between one protocol and `doors.service`, and holds no rule of its own."""
