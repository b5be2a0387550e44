"""Rules about the files that may be handed to a worker.

Judges facts that an activity looked up (path, size in bytes, media type, digest). The caller's policy and the callee's
are both applied; the tree's own rules (suffixes, largest file) belong to `sandbox`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from pydantic import Field

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.sandbox import Suffixes, has_suffix
from llm_do_temporal.policy.values import Value

DEFAULT_MAX_ATTACHMENTS = 4
DEFAULT_MAX_TOTAL_BYTES = 20_000_000


class AttachmentPolicy(Value):
    """`attachment_policy:` of a worker file. The defaults hold where a worker has none."""

    max_attachments: int = Field(default=DEFAULT_MAX_ATTACHMENTS, ge=0)
    max_total_bytes: int = Field(default=DEFAULT_MAX_TOTAL_BYTES, ge=0)
    allowed_suffixes: Suffixes = ()
    """Endings of names that are allowed; empty allows all."""
    denied_suffixes: Suffixes = ()


class Attachment(Value):
    """File as it was when it was attached: its bytes are in the blob store under the digest."""

    path: str
    """Name that the model and the person see: a virtual path, or a file name for files given to `start`."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    media_type: str
    place: str | None = Field(default=None, exclude_if=lambda given: given is None)
    """Real path, relative to the workshop, links followed; None where that is not known."""


class AttachmentPaths(Value):
    """`attachments:` of a worker file: other spellings of paths that its model gives as attachments."""

    path_map: dict[str, str] = Field(default_factory=dict)
    """Paths in the worker's files, by the spelling that the model may give instead."""
    base_path: str | None = None
    """Folder at which relative paths begin, instead of `/`."""


def meant_path(paths: AttachmentPaths, given: str, *, names: Collection[str] = ()) -> str:
    """Return the path in the caller's files that `given` stands for; nothing is checked.

    `names` are the folders that may be written as `name:rest`; such a path is not a relative one.
    """
    known = {str(PurePosixPath(alias)): path for alias, path in paths.path_map.items()}
    mapped = known.get(str(PurePosixPath(given)))
    if mapped is not None:
        return mapped
    head, colon, _ = given.partition(":")
    named = bool(colon) and head in names
    if paths.base_path is None or given.startswith("/") or named:
        return given
    return f"{paths.base_path.rstrip('/')}/{given}"


def check_attachment_names(policy: AttachmentPolicy, paths: Sequence[str], *, whose: str) -> None:
    """Check the number and the suffixes of files, which are known without looking at them.

    `whose` names the policy in the message. Raises AttachmentRefusal.
    """
    if len(paths) > policy.max_attachments:
        raise AttachmentRefusal(
            f"{_files(len(paths))} attached, but {whose} accepts at most {policy.max_attachments} (max_attachments)"
        )
    for path in paths:
        if policy.denied_suffixes and has_suffix(path, policy.denied_suffixes):
            raise AttachmentRefusal(f"'{path}' has a suffix that {whose} denies: {', '.join(policy.denied_suffixes)}")
        if policy.allowed_suffixes and not has_suffix(path, policy.allowed_suffixes):
            raise AttachmentRefusal(
                f"'{path}' has a suffix that {whose} does not accept; accepted: {', '.join(policy.allowed_suffixes)}"
            )


def check_attachments(policy: AttachmentPolicy, attachments: Sequence[Attachment], *, whose: str) -> None:
    """Check the whole policy against files that were looked up. Raises AttachmentRefusal."""
    check_attachment_names(policy, [attachment.path for attachment in attachments], whose=whose)
    check_total(policy, [attachment.bytes for attachment in attachments], whose=whose)


def check_total(policy: AttachmentPolicy, sizes: Sequence[int], *, whose: str) -> None:
    """Check the bytes of all files together. Raises AttachmentRefusal."""
    total = sum(sizes)
    if total > policy.max_total_bytes:
        raise AttachmentRefusal(
            f"{_files(len(sizes))} of together {total} bytes attached, but {whose} accepts at most "
            f"{policy.max_total_bytes} (max_total_bytes)"
        )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
