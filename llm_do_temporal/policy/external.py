"""Calls of tools that others wrote, in external toolsets and in `tools.py`: their names, capabilities and arguments.

Pure. Names, descriptions and schemas of external tools were written by others, so nothing here trusts them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from llm_do_temporal.errors import ApprovalRefusal, DefinitionError, EffectFailed
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.values import CapabilityUse, Value, canonical

DEFAULT_CAPABILITIES = ("tool.call",)
_ASKS = {None: None, Ruling.PRE_APPROVED: False, Ruling.NEEDS_APPROVAL: True}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that every provider accepts."""
_MOST_CHARS, _DIGEST_CHARS = 64, 8


class ToolPolicy(Value):
    """Policy of a worker's file for a toolset, or for a single tool in it."""

    ruling: Ruling | None = None
    capabilities: tuple[str, ...] | None = None


def offered_names(prefix: str | None, names: Sequence[str]) -> list[str]:
    """Return the names under which a model is offered the tools of a toolset, in their order; no two are the same.

    A name that a provider would refuse becomes plain: `files/read.all` is `files_read_all`.
    """
    full = [f"{prefix or ''}{name}" for name in names]
    taken = {name for name in full if _NAME.fullmatch(name)}
    offered: list[str] = []
    for name in full:
        plain = name
        if not _NAME.fullmatch(name):
            plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
            if len(plain) > _MOST_CHARS or not plain.strip("_") or plain in taken:
                digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
                stem = plain[: _MOST_CHARS - _DIGEST_CHARS - 1]
                plain = f"{stem}_{digest}"
                number = 1
                while plain in taken:  # names can be made that share these digits
                    number += 1
                    plain = f"{stem[:-_DIGEST_CHARS]}_{number}_{digest}"
            taken.add(plain)
        offered.append(plain)
    return offered


def policy_of(toolset: ToolPolicy, tools: Mapping[str, ToolPolicy], tool: str, *, asks: bool) -> ToolPolicy:
    """Return the policy of a tool: its own, else its toolset's, else whether the toolset's code `asks`."""
    own = tools.get(tool, ToolPolicy())
    ruling = own.ruling or toolset.ruling or (Ruling.NEEDS_APPROVAL if asks else None)
    return ToolPolicy(ruling=ruling, capabilities=own.capabilities or toolset.capabilities)


def uses_of_external(
    tool: str, policy: ToolPolicy, said: Sequence[str], *, toolset: str, sha256: str
) -> tuple[CapabilityUse, ...]:
    """Return the capabilities of a call: the worker's, else those that its toolset `said`, else `tool.call`.

    `sha256` names its toolset: a person's decision for the run covers calls of this toolset, not of another with a tool
    of the same name. Raises ApprovalRefusal for a tool that the worker's file blocks.
    """
    capabilities = tuple(dict.fromkeys((*(policy.capabilities or ()), *(said or ())))) or DEFAULT_CAPABILITIES
    return uses_of_call(tool, capabilities, policy.ruling, digest=sha256, toolset=toolset)


def toolset_digest(definition: str) -> str:
    """Return the digest that names a toolset; `definition` is all that the worker's file says of it, as text."""
    return hashlib.sha256(definition.encode()).hexdigest()


def check_names(named: Iterable[tuple[str, str]]) -> None:
    """Raise DefinitionError where two of the tools have the same name; each comes with its toolset."""
    owners: dict[str, str] = {}
    for tool, owner in named:
        if tool in owners:
            prefix = re.sub(r"[^a-z0-9]+", "_", owner.rpartition(".")[2].lower()).strip("_")
            raise DefinitionError(
                f"two tools are called '{tool}': one of '{owners[tool]}', one of '{owner}'",
                next_step=f"Give one of the toolsets a `prefix:`, such as `prefix: {prefix}_`.",
            )
        owners[tool] = owner


PYTHON_CAPABILITIES = ("python.call",)


def uses_of_call(
    tool: str, capabilities: Sequence[str], ruling: Ruling | None, *, digest: str, toolset: str | None = None
) -> tuple[CapabilityUse, ...]:
    """Return the capabilities that a call of a tool uses; `digest` is that of the tool's file, or of its toolset.

    The tool's own ruling, where it has one, decides whether its capabilities ask; what a rule blocks stays blocked.
    Raises ApprovalRefusal for a tool that is blocked itself.
    """
    if ruling is Ruling.BLOCKED:
        raise ApprovalRefusal(f"'{tool}' is blocked: the worker's file does not allow it")
    payload = {"tool": tool, "sha256": digest} | ({} if toolset is None else {"toolset": toolset})
    return tuple(CapabilityUse(name=name, payload=payload, asks=_ASKS[ruling]) for name in capabilities)


def call_arguments(
    tool: str, schema: Mapping[str, Any], given: str | Mapping[str, Any], attachments: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the arguments of a call that a Python function wrote as a text or as a mapping.

    A text is the argument `input`, or the only argument that `schema` requires when that is a text. Raises EffectFailed
    where it could mean several arguments, or none.
    """
    if isinstance(given, str):
        properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
        required = cast("list[str]", schema.get("required", []))
        name = "input" if "input" in properties or len(required) != 1 else required[0]
        if name not in properties or (name != "input" and properties[name].get("type") != "string"):
            takes = ", ".join(f"'{one}'" for one in properties) or "nothing"
            raise EffectFailed(f"'{tool}' cannot be called with one text; it takes {takes}: give them by name")
        given = {name: given}
    arguments: dict[str, Any] = dict(given)
    if attachments is not None:
        arguments["attachments"] = list(attachments)
    return arguments


def idempotency_key(run: str, path: str, tool: str, args: Mapping[str, Any], occurrence: int) -> str:
    """Return 64 hexadecimal digits that name one call: the `occurrence`th of `tool` with `args` by the invocation."""
    return hashlib.sha256(canonical([run, path, tool, dict(args), occurrence]).encode()).hexdigest()
