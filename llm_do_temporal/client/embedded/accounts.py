"""Other accounts of this machine: the embedded server listens at one of its ports, and asks nobody who they are."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

_FIRST_PERSON, _LAST_PERSON = 500, 60_000
"""Accounts below belong to the system: 1,000 is the first person's on Linux, 501 on a Mac. Above is `nobody`."""
_NO_SHELLS = frozenset(("false", "nologin", "sync", "halt", "shutdown", ""))
_MOST_NAMED = 5


def other_logins(accounts: Iterable[pwd.struct_passwd] | None = None, uid: int | None = None) -> list[str]:
    """Return the names of people other than the user `uid` who can log in here; by default, those this machine lists.

    Root is not among them, who can do everything anyway. A directory service may know people whom it does not list.
    """
    me = os.getuid() if uid is None else uid
    found = pwd.getpwall() if accounts is None else accounts
    return sorted(
        {
            one.pw_name
            for one in found
            if _FIRST_PERSON <= one.pw_uid < _LAST_PERSON
            and one.pw_uid != me
            and Path(one.pw_shell).name not in _NO_SHELLS
        }
    )


def named(logins: list[str]) -> str:
    """Some of these names, and how many more there are."""
    shown = ", ".join(logins[:_MOST_NAMED])
    return shown if len(logins) <= _MOST_NAMED else f"{shown} and {len(logins) - _MOST_NAMED} more"
