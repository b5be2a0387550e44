"""Shapes of keys: whether a text is more likely a secret than a setting."""

from __future__ import annotations

import re

_KEY_PREFIX = re.compile(r"(?:sk-|sk_|pk_|AIza|ghp_|gho_|github_pat_|xox[abp]-|hf_|AKIA|ya29\.|Bearer\s|Basic\s)")
_KEY_LIKE = re.compile(r"[A-Za-z0-9_\-]{32,}")


def begins_like_key(value: str) -> bool:
    """Return whether a text begins as keys of a known provider do."""
    return _KEY_PREFIX.match(value) is not None


def looks_like_key(value: str) -> bool:
    """Return whether a text is probably a secret: it has a known prefix, or is long and of letters and digits."""
    if begins_like_key(value):
        return True
    return any(re.search(r"\d", part) and re.search(r"[A-Za-z]", part) for part in _KEY_LIKE.findall(value))
