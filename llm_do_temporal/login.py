"""The login name of the person at the terminal, as far as the machine knows it."""

from __future__ import annotations

import getpass


def login_name() -> str:
    """The person's login name; empty where the machine has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
