"""Error of everything here: what is wrong, and what to do about it."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster cannot be had; the text says why, and what to do."""
