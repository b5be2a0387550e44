"""Encryption of payloads in Temporal and of blobs in their store. Needs nothing but keys.

`keys` says where keys come from, `codec` encrypts payloads, `sealing` blobs. Without keys nothing is encrypted, and
what was encrypted before cannot be read: that is an error, never a value.
"""
