"""Identity of a call, and digest of the question that was shown about it.

The identity says which calls are the same call, so that a remembered decision covers them. It takes in the call's uses
and everything that its effect depends on, down to the bytes of every file that it names. The digest names one question
as it was shown: the subject of a decision. Both are versioned: a decision remembered by one version answers no question
of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Tree, join, locate
from llm_do_temporal.policy.values import CapabilityUse, Value, canonical

IDENTITY_VERSION = 2


class SeenFile(Value):
    """File that a call names, as it was found: part of the question, and compared with the file by the effect."""

    path: str
    """Virtual path."""
    place: str | None = None
    """Real path, relative to the workshop, links followed; None: the file was not looked at."""
    sha256: str | None = None
    """Digest of the file's bytes; None: there is no such file."""
    mode: int | None = None
    """Permission bits; None where there is no such file."""
    after: str | None = None
    """Digest of the file's bytes after the call; None for a call that leaves it as it is."""

    def is_like(self, found: SeenFile) -> bool:
        """Return whether `found` is this file as it was seen."""
        is_there = self.place is None or self.place == found.place
        return is_there and (self.sha256, self.mode) == (found.sha256, found.mode)


def identity_of(
    tool: str,
    args: dict[str, Any],
    uses: Sequence[CapabilityUse],
    *,
    version: int,
    tree: Tree,
    files: Sequence[SeenFile],
    attachments: Sequence[Attachment],
    circumstances: str,
    whom: Sequence[Any],
    done: bool = False,
) -> str:
    """Return the key that identical calls have in common, as JSON: the arguments, and a digest of everything.

    `circumstances` is the digest of everything else that the effect depends on, `whom` the people who must agree. With
    `done`, the files are taken as the call leaves them.
    """
    named = [[one.path, one.place, (one.after if done and one.after else one.sha256)] for one in files]
    handed = [[one.path, real_place(tree, one.path), one.sha256, one.media_type] for one in attachments]
    subjects = [subject_of(use, tree) for use in uses]
    digest = digest_of([tool, args, subjects, named, handed, circumstances, list(whom)])
    # The arguments stand first, readable: what is remembered is shown to people.
    return canonical([args, f"{version}:{digest}"])


def subject_of(use: CapabilityUse, tree: Tree) -> list[object]:
    """Return the capability, the real path of the file it is used on, and the digest of the tool's code, if any.

    Workers with `tools.py` files of their own may call different functions by the same name, and workers with folders
    of their own different files.
    """
    code = use.payload.get("sha256")
    path = use.payload.get("path", use.payload.get("cwd"))
    return [use.name, real_place(tree, path), *([] if code is None else [code])]


def real_place(tree: Tree, path: object) -> str | None:
    """Return the path in the workshop that a virtual path stands for, by its text; None where it stands for none."""
    if not isinstance(path, str):
        return None
    try:
        place = locate(tree, path)
    except Refusal:
        return None
    return join(place.mount.root, place.relative)


def changes_nothing(files: Sequence[SeenFile]) -> bool:
    """Return whether a call is meant to change these files, and all of them are already as it leaves them."""
    return bool(files) and all(one.after is not None and one.after == one.sha256 for one in files)


def digest_of(value: object) -> str:
    """Return the sha256 digest of a JSON value, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode(errors="surrogatepass")).hexdigest()
