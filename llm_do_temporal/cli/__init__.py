"""The command line: parses, calls the client, prints.

Owns the words that people type and read on a terminal. Nothing else imports it. Never loads agent code: `approvals`
must answer at once, so heavy modules are imported inside the commands that need them.
"""
