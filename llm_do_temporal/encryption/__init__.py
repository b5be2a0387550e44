"""Encryption of payloads in Temporal and of blobs in their store, with keys from the environment.

Without keys nothing is encrypted, and what was encrypted before cannot be read: that is an error, never a value.
"""
