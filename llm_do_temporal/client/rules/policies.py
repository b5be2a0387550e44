"""Policies to be tried: that of a workshop, that of a file, and one with entries that somebody thinks of adding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.definitions.workshop.keys import WorkshopConfig
from llm_do_temporal.definitions.workshop.workshop import load_workshop
from llm_do_temporal.definitions.yaml.lines import Document, parse_yaml
from llm_do_temporal.definitions.yaml.problems import raise_first
from llm_do_temporal.definitions.yaml.validation import validate
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.backtest.verdicts import Policy
from llm_do_temporal.policy.kinds.entries import AllowEntry
from llm_do_temporal.workshop_search import WORKSHOP_FILE

MAX_POLICY_BYTES = 1_000_000
"""Largest file that is read as a `workshop.yaml`."""
_EXAMPLE = "'{tool: write_file, below: /notes, suffix: .md}'"


def policy_of_workshop(folder: Path) -> Policy:
    """Return the policy of a workshop as it is now. Raises DefinitionError."""
    return _policy_of(load_workshop(folder).config)


def policy_of_file(path: Path) -> Policy:
    """Return the policy of a file that is written like a `workshop.yaml`, or of the one in a folder.

    Raises UsageError where it cannot be read, DefinitionError where it is wrong.
    """
    file = path / WORKSHOP_FILE if path.is_dir() else path
    text = read_given(file, f"the policy '{file}'", most=MAX_POLICY_BYTES)
    document, problems = parse_yaml(text, file=str(file))
    config, invalid = validate(WorkshopConfig, document, file=str(file))
    raise_first([*problems, *invalid])
    return _policy_of(config)


def with_entries(policy: Policy, texts: Sequence[str]) -> Policy:
    """Return the policy with more entries of `approvals: allow:`, each given as YAML or JSON. Raises UsageError."""
    added = tuple(_entry(text) for text in texts)
    approvals = policy.approvals
    changed = approvals.model_copy(update={"allow": (*approvals.allow, *added)})
    return policy.model_copy(update={"approvals": changed})


def _policy_of(config: WorkshopConfig) -> Policy:
    return Policy(approvals=config.approvals, sandbox=config.sandbox)


class _Added(Strict):
    """An entry on its way into `approvals: allow:`."""

    allow: tuple[AllowEntry, ...] = ()


def _entry(text: str) -> AllowEntry:
    """Return the entry that a text describes, also as the only item of a list. Raises UsageError."""
    document, problems = parse_yaml(text, file="the entry")
    given: object = document.value
    item = given
    if isinstance(given, list) and len(items := cast("list[object]", given)) == 1:
        item = items[0]
    keys = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    # Mistakes are told by the innermost key that has a line.
    added = Document({"allow": [item]}, {("allow", 0): 1, **{("allow", 0, key): 1 for key in keys}})
    found, invalid = validate(_Added, added, file="the entry")
    if wrong := [*problems, *invalid]:
        reason = wrong[0].message.replace("'allow.0.", "'").replace("'allow.0'", "it").removeprefix("it: ")
        raise UsageError(
            f"the entry '{text[:200]}' cannot be used: {reason}",
            next_step=wrong[0].next_step or f"Write it like {_EXAMPLE}.",
        )
    return found.allow[0]
