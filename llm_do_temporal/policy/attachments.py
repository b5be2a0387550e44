"""Which files may be handed to a worker.

Judges facts that an activity looked up (path, size in bytes, media type, digest). The caller's policy
and the callee's are both applied; the tree's own rules (suffixes, largest file) belong to `sandbox`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.sandbox import Suffixes, has_suffix
from llm_do_temporal.policy.values import Value

DEFAULT_MAX_ATTACHMENTS = 4
DEFAULT_MAX_TOTAL_BYTES = 20_000_000


class AttachmentPolicy(Value):
    """`attachment_policy:` of a worker file. The defaults hold where a worker has none."""

    max_attachments: int = Field(default=DEFAULT_MAX_ATTACHMENTS, ge=0)
    max_total_bytes: int = Field(default=DEFAULT_MAX_TOTAL_BYTES, ge=0)
    allowed_suffixes: Suffixes = ()
    """Endings allowed; empty allows all."""
    denied_suffixes: Suffixes = ()


class Attachment(Value):
    """A file as it was when it was attached: its bytes are in the blob store under the digest."""

    path: str
    """The name the model and the person see: a virtual path, or a file name for files given to `start`."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    media_type: str


def check_attachment_names(policy: AttachmentPolicy, paths: Sequence[str], *, whose: str) -> None:
    """Check what can be known without looking at the files: their number and suffixes.

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
    total = sum(attachment.bytes for attachment in attachments)
    if total > policy.max_total_bytes:
        raise AttachmentRefusal(
            f"{_files(len(attachments))} of together {total} bytes attached, but {whose} accepts at most "
            f"{policy.max_total_bytes} (max_total_bytes)"
        )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
