"""Protocols of model providers, spoken by one server on this machine. `server` serves what `saying` can say.

Each module beside these gives an answer the form of one protocol, whole and streamed, and says what that provider
would refuse in a request, as far as is known. So a conversation that a provider cannot take fails a test here.
"""
