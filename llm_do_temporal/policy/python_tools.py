"""Calls of Python tools: their capabilities, the key that names one call, and arguments written short.

Pure. Used by workflow code for functions of the author's `tools.py`, and for the calls that those make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llm_do_temporal.errors import ApprovalRefusal, EffectFailed
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.uses import CapabilityUse, canonical

DEFAULT_CAPABILITIES = ("python.call",)
_ASKS = {None: None, Ruling.PRE_APPROVED: False, Ruling.NEEDS_APPROVAL: True}


def uses_of_call(
    tool: str, capabilities: Sequence[str], ruling: Ruling | None, *, digest: str
) -> tuple[CapabilityUse, ...]:
    """Return the capabilities that a call of a Python tool uses; `digest` is that of the tool's file.

    The tool's own ruling, where it has one, decides whether its capabilities ask; what a rule blocks stays blocked.
    Raises ApprovalRefusal for a tool that is blocked itself.
    """
    if ruling is Ruling.BLOCKED:
        raise ApprovalRefusal(f"'{tool}' is blocked: the worker's file does not allow it")
    payload = {"tool": tool, "sha256": digest}
    return tuple(CapabilityUse(name=name, payload=payload, asks=_ASKS[ruling]) for name in capabilities)


def call_arguments(
    tool: str, schema: Mapping[str, Any], given: str | Mapping[str, Any], attachments: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the arguments of a call that a Python function wrote as a text or as a mapping.

    A text is the argument `input`, or the only argument that `schema` requires when that is a text. Raises EffectFailed
    where it could mean several arguments, or none.
    """
    arguments: dict[str, Any] = {_text_argument(tool, schema): given} if isinstance(given, str) else dict(given)
    if attachments is not None:
        arguments["attachments"] = list(attachments)
    return arguments


def idempotency_key(run: str, path: str, tool: str, args: Mapping[str, Any], occurrence: int) -> str:
    """Return 64 hexadecimal digits that name one call: the `occurrence`th of `tool` with `args` by the invocation."""
    return hashlib.sha256(canonical([run, path, tool, dict(args), occurrence]).encode()).hexdigest()


def _text_argument(tool: str, schema: Mapping[str, Any]) -> str:
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
    if "input" in properties:
        return "input"
    required = cast("list[str]", schema.get("required", []))
    if len(required) == 1 and properties.get(required[0], {}).get("type") == "string":
        return required[0]
    takes = ", ".join(f"'{name}'" for name in properties) or "nothing"
    raise EffectFailed(f"'{tool}' cannot be called with one text; it takes {takes}: give them by name")
