"""Decisions, as pure functions of facts.

Owns every rule about files, attachments, approvals, models and delegation. Called by workflow code (and by the client,
to refuse before a run starts). Does no I/O, reads no clock and no environment, and imports nothing but the standard
library's pure parts, pydantic and `errors`: a verdict must come out the same when a workflow replays.
"""
