"""Content keys: names of a turn, a call, a delegation or a read by what it depends on and by nothing else.

No time, no random id and no position in a run goes into a key. A key is recorded with what it names, so that a fork
finds it; the form is a contract on the wire, and VERSION stands in each key. All parts are JSON values; see `canonical`
for how they are written. Which parts of a conversation count is decided by `activities.models.conversations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import digest_of

VERSION = 1
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
    return digest_of([VERSION, kind, *parts])
