"""The command line: parses, calls the client, prints.

Owns what people type and read on a terminal. Nothing else imports it. Never loads agent code: whoever asks
what is pending must not wait for it, so heavy modules are imported inside the commands that need them.
"""
