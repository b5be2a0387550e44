"""Files on their way to a worker: found in the tree of their source, snapshotted, judged by every policy that holds.

Used by delegations and, for files that an entry worker's input names, by the run. Asks no person itself, and returns
the questions that a person may have to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.messages.activities import SNAPSHOT_ATTACHMENTS, AttachedFile, SnapshotInput
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.policy.files.attachments import (
    Attachment,
    AttachmentPaths,
    AttachmentPolicy,
    check_attachment_names,
    check_attachments,
    meant_path,
)
from llm_do_temporal.policy.files.sandbox import Tree, check_readable, check_size, locate, normalise
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.workflows.runtime.activities import run_activity
from llm_do_temporal.workflows.tools.gated_tool import ToolQuestion
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer, through


@dataclass(frozen=True)
class NamedPolicy:
    """Policy that files must meet, with the name of its owner (`whose`) for messages."""

    policy: AttachmentPolicy
    whose: str


def own_policy(worker: PinnedWorker) -> NamedPolicy:
    """Return the worker's own policy."""
    return NamedPolicy(worker.attachment_policy, f"worker '{worker.name}'")


@dataclass(frozen=True)
class AttachmentSource:
    """Worker, or run, whose files are handed over."""

    tree: Tree
    paths: AttachmentPaths
    """Spellings of paths that the model of this source may use."""
    layer: WorkingLayer | None = None
    """Layer that its files are seen through; None: they are the workshop's own."""


async def snapshot_attachments(
    source: AttachmentSource, given: Sequence[str], limits: Sequence[NamedPolicy]
) -> tuple[Attachment, ...]:
    """Keep the files as they are now in the blob store; return one attachment for each path.

    Raises LlmDoError where a path leads nowhere, or one of the policies in `limits` refuses the files.
    """
    files = _files(source, given)
    if not files:
        return ()
    paths = [file.path for file in files]
    for limit in limits:
        check_attachment_names(limit.policy, paths, whose=limit.whose)
    for file in files:
        if file.mount is not None:
            check_readable(locate(source.tree, file.path))
    most = min(limit.policy.max_total_bytes for limit in limits)
    request = through(source.layer, SnapshotInput(files=files, max_total_bytes=most, tree=source.tree))
    found = await run_activity(SNAPSHOT_ATTACHMENTS, request, summary=f"snapshot {', '.join(paths)}")
    attachments = found.attachments
    for attachment in attachments:
        check_size(locate(source.tree, attachment.path), attachment.bytes)
    for limit in limits:
        check_attachments(limit.policy, attachments, whose=limit.whose)
    return attachments


def sharing_questions(
    tree: Tree, worker: PinnedWorker, attachments: Sequence[Attachment], *, surroundings: str
) -> list[ToolQuestion]:
    """Return the questions that a person may have to answer before the files go to the worker, one a file.

    `surroundings` are those of the call that they belong to.
    """
    questions: list[ToolQuestion] = []
    for attachment in attachments:
        payload = {"path": attachment.path, "bytes": attachment.bytes, "target_worker": worker.name}
        asks = locate(tree, attachment.path).mount.read_approval
        use = CapabilityUse(name="sandbox.read", payload=payload, asks=asks)
        summary = f"share {shown_name(attachment.path)} ({attachment.bytes} bytes) with {worker.name}"
        questions.append(
            ToolQuestion(
                (use,),
                payload,
                summary,
                changeable=False,
                attachments=(attachment,),
                circumstances=definition_digest(worker),
                surroundings=surroundings,
            )
        )
    return questions


def definition_digest(worker: PinnedWorker, **more: Any) -> str:
    """Return the digest of a worker's whole definition (its file, files that it includes, values that were filled in),
    and of all else, `more`, that makes a call of it."""
    rest = {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value for name, value in more.items()
    }
    return digest_of([worker.model_dump(mode="json"), rest])


def _files(source: AttachmentSource, given: Sequence[str]) -> tuple[AttachedFile, ...]:
    """Return the file that each path leads to, judged by its text alone. Raises SandboxRefusal."""
    names = [mount.at.strip("/") for mount in source.tree.mounts]
    found: list[AttachedFile] = []
    for spelled in given:
        path = meant_path(source.paths, spelled, names=names)
        try:
            place = locate(source.tree, path)
        except SandboxRefusal:
            virtual = normalise(path)
            if not path.startswith("/") or not source.tree.mounts:
                raise
            # It may be the host's name of a file of the tree: only an activity, which knows the workshop's folder, can
            # tell.
            file = AttachedFile(mount=None, relative=".", path=virtual)
        else:
            file = AttachedFile(mount=place.mount, relative=place.relative, path=place.path)
        found.append(file)
    return tuple(found)
