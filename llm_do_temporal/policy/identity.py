"""Identity of a call, and digest of the question that was shown about it.

The identity says which calls are the same call, so that a remembered decision covers them. It takes in the call's uses
and everything that its effect depends on, down to the bytes of every file that it names. The digest names one question
as it was shown: the subject of a decision. Both are versioned: a decision remembered by one version answers no question
of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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


_KEY_VERSION = 1
_NO_PARTS = ("layer", "content_key", "fork")
"""Fields of a request that say nothing about what is read."""


def said_key(before: str, messages: Sequence[Any]) -> str:
    """Return the key of a conversation: the key of its beginning, empty for none, and the canonical messages since."""
    return _key("said", before, list(messages))


def turn_key(model: str, settings: Mapping[str, Any], offered: Mapping[str, Any], said: str) -> str:
    """Return the key of a model turn.

    `offered` is everything else that the model sees: instructions, tools, output schema; `said` the key of the
    conversation.
    """
    return _key("turn", model, dict(settings), dict(offered), said)


def call_key(by: str, tool: str, args: Mapping[str, Any], occurrence: int) -> str:
    """Return the key of a tool call.

    `by` is the key of the turn whose answer calls, or of the call whose function does; empty: there is none, and the
    call has no key either. `occurrence` counts equal calls of the same answer, from 1.
    """
    return _key("call", by, tool, dict(args), occurrence) if by else ""


def ending_key(by: str) -> str:
    """Return the key of the review at the end of an invocation, whose last answer has the turn key `by`."""
    return _key("ending", by) if by else ""


def delegation_key(
    worker: str,
    definition: str,
    model: str,
    prompt: str,
    given: Any,
    attachments: Sequence[Attachment],
) -> str:
    """Return the key of a delegation by its inputs.

    `worker` is the name, `definition` the digest of the callee as it is pinned, `given` the structured input.
    """
    handed = [[one.path, one.sha256, one.media_type] for one in attachments]
    return _key("delegation", worker, definition, model, prompt, given, handed)


def read_key(activity: str, request: Mapping[str, Any]) -> str:
    """Return the key of an activity that only reads; `request` is its input as JSON."""
    return _key("read", activity, {name: value for name, value in request.items() if name not in _NO_PARTS})


def _key(kind: str, *parts: Any) -> str:
    return digest_of([_KEY_VERSION, kind, *parts])
