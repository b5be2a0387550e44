"""Tools that come from elsewhere: what they are called here, and what a call of one uses.

Pure. Their names, descriptions and schemas were written by others, so nothing here trusts them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from llm_do_temporal.errors import ApprovalRefusal, DefinitionError
from llm_do_temporal.policy.approvals import CapabilityUse, Ruling
from llm_do_temporal.policy.values import Value

DEFAULT_CAPABILITIES = ("tool.call",)
_ASKS = {None: None, Ruling.PRE_APPROVED: False, Ruling.NEEDS_APPROVAL: True}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""


class ToolPolicy(Value):
    """What a worker's file says of a toolset, or of one of its tools."""

    ruling: Ruling | None = None
    capabilities: tuple[str, ...] | None = None


def offered_name(prefix: str | None, name: str) -> str | None:
    """What a tool is called to the model; None where no provider would accept that."""
    full = f"{prefix or ''}{name}"
    return full if _NAME.fullmatch(full) else None


def policy_of(toolset: ToolPolicy, tools: Mapping[str, ToolPolicy], tool: str, *, asks: bool) -> ToolPolicy:
    """What holds for one tool: what is said of it, else of its toolset, else whether the toolset itself `asks`."""
    own = tools.get(tool, ToolPolicy())
    ruling = own.ruling or toolset.ruling or (Ruling.NEEDS_APPROVAL if asks else None)
    return ToolPolicy(ruling=ruling, capabilities=own.capabilities or toolset.capabilities)


def uses_of_external(
    tool: str, policy: ToolPolicy, said: Sequence[str], *, toolset: str, sha256: str
) -> tuple[CapabilityUse, ...]:
    """What a call is about to do: the worker's capabilities, those its toolset `said`, else `tool.call`.

    `sha256` names its toolset: what a person remembers for the run is a call of this one, not of another that has a
    tool of the same name. Raises ApprovalRefusal for a tool that the worker's file blocks.
    """
    if policy.ruling is Ruling.BLOCKED:
        raise ApprovalRefusal(f"'{tool}' is blocked: the worker's file does not allow it")
    capabilities = tuple(dict.fromkeys((*(policy.capabilities or ()), *(said or ())))) or DEFAULT_CAPABILITIES
    payload = {"tool": tool, "toolset": toolset, "sha256": sha256}
    return tuple(CapabilityUse(name=name, payload=payload, asks=_ASKS[policy.ruling]) for name in capabilities)


def toolset_digest(definition: str) -> str:
    """Names a toolset by all that the worker's file says of it, as text."""
    return hashlib.sha256(definition.encode()).hexdigest()


def check_names(named: Iterable[tuple[str, str]]) -> None:
    """Raise DefinitionError when two of the tools have one name; each comes with the toolset it belongs to."""
    owners: dict[str, str] = {}
    for tool, owner in named:
        if tool in owners:
            raise DefinitionError(
                f"two tools are called '{tool}': one of '{owners[tool]}', one of '{owner}'",
                next_step=f"Give one of the toolsets a `prefix:`, such as `prefix: {_prefix_for(owner)}`.",
            )
        owners[tool] = owner


def _prefix_for(owner: str) -> str:
    word = re.sub(r"[^a-z0-9]+", "_", owner.rpartition(".")[2].lower()).strip("_")
    return f"{word}_"
