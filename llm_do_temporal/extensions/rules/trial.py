"""Trial of a policy: what it would make of past calls, and of the calls at the edge of its new entries.

Nothing is asked, changed or run. What people said stands beside each call, and decides nothing about the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.definitions.yaml.documents import Document, parse_yaml, raise_first, validate
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.rules.past_calls import CallAnswer, PastCall, PastCalls
from llm_do_temporal.extensions.rules.policy.neighbours import Neighbour, neighbours_of
from llm_do_temporal.extensions.rules.policy.verdicts import (
    ChangeKind,
    GateOutcome,
    PastVerdict,
    Policy,
    change_between,
    judge_again,
    lacks_places,
)
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.kinds.kind import AllowEntry
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


_ASKED = GateOutcome(verdict=PastVerdict.ASKS, reason="it was asked about")


@dataclass(frozen=True)
class TriedCall:
    """Past call with its outcome before and under the policy that is tried."""

    past: PastCall
    before: GateOutcome
    after: GateOutcome
    change: ChangeKind | None
    """Difference between the two; None: there is none."""

    @property
    def goes_against(self) -> bool:
        """Whether it passes now, and did not before, though a person did not want it as it was."""
        return self.change is ChangeKind.NEWLY_PASSED and self.past.answer.is_against

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        question = self.past.question
        verdict = question.verdict
        return {
            "run": question.run,
            "id": question.id,
            "path": question.request.path,
            "worker": question.request.worker,
            "tool": question.request.tool,
            "summary": question.request.summary,
            "asked_at": question.asked_at.isoformat(),
            "answer": self.past.answer.value,
            "by": self.past.by,
            "note": "" if verdict is None else verdict.note,
            "before": self.before.verdict.value,
            "after": self.after.verdict.value,
            "reason": self.after.reason,
        }


@dataclass(frozen=True)
class EntryTrial:
    """Trial of one entry of `approvals: allow:`."""

    entry: AllowEntry
    covered: int
    """Number of past calls that it covers."""
    neighbours: tuple[Neighbour, ...] | None
    """Calls at its edge, those that pass first; None: it covers no past call that they could be made of."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        neighbours = self.neighbours
        return {
            "entry": self.entry.as_mapping(),
            "sentence": self.entry.sentence,
            "covered": self.covered,
            "neighbours": None
            if neighbours is None
            else [
                {"trick": one.trick, "call": one.subject, **one.outcome.model_dump(mode="json")} for one in neighbours
            ],
        }


@dataclass(frozen=True)
class Trial:
    """GateOutcome of a policy on past calls."""

    calls: tuple[TriedCall, ...]
    """All calls, the newest first."""
    entries: tuple[EntryTrial, ...]
    """Entries that the policy has more than the one it is compared with."""
    runs: int
    locked: tuple[str, ...]
    """Ids of runs that cannot be read here."""
    is_cut: bool
    """Whether there are more runs, which were not read."""

    def changed(self, change: ChangeKind) -> list[TriedCall]:
        """Return the calls with this change; of what newly passes, what people did not want comes first."""
        found = [call for call in self.calls if call.change is change]
        return sorted(found, key=lambda call: not call.goes_against)

    @property
    def against(self) -> int:
        """Number of calls that newly pass though a person did not want them as they were."""
        return sum(call.goes_against for call in self.calls)

    @property
    def asked(self) -> int:
        """Number of calls that asked before."""
        return sum(call.before.verdict is PastVerdict.ASKS for call in self.calls)

    @property
    def asks(self) -> int:
        """Number of calls that ask under the policy."""
        return sum(call.after.verdict is PastVerdict.ASKS for call in self.calls)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        changes = {change.name.lower(): [call.as_json() for call in self.changed(change)] for change in ChangeKind}
        return {
            "runs": self.runs,
            "locked_runs": list(self.locked),
            "is_cut": self.is_cut,
            "calls": len(self.calls),
            "before": _counts(call.before for call in self.calls),
            "after": _counts(call.after for call in self.calls),
            "against": self.against,
            **changes,
            "entries": [one.as_json() for one in self.entries],
        }


def _counts(outcomes: Any) -> dict[str, int]:
    found = Counter(outcome.verdict.value for outcome in outcomes)
    return {verdict.value: found[verdict.value] for verdict in PastVerdict if found[verdict.value]}


def try_policy(policy: Policy, past: PastCalls, *, today: Policy | None = None) -> Trial:
    """Return the outcome of a policy on past calls, compared with the policy of `today`; None: with what happened."""
    calls = tuple(_tried(policy, one, today) for one in reversed(past.calls))
    known = () if today is None else today.approvals.allow
    entries = [entry for entry in policy.approvals.allow if entry not in known]
    return Trial(
        calls=calls,
        entries=tuple(_tried_entry(entry, policy, past.calls) for entry in entries),
        runs=past.runs,
        locked=past.locked,
        is_cut=past.is_cut,
    )


def _tried(policy: Policy, past: PastCall, today: Policy | None) -> TriedCall:
    call = past.question.request.call
    before = _then(past) if today is None else judge_again(today, call)
    after = judge_again(policy, call)
    return TriedCall(past, before, after, change_between(before, after))


def _then(past: PastCall) -> GateOutcome:
    """Return what became of the call then: an entry let it through, or it was asked about."""
    allowed = past.question.request.allowed
    return GateOutcome(verdict=PastVerdict.PASSES, reason=allowed) if allowed else _ASKED


def _tried_entry(entry: AllowEntry, policy: Policy, past: Sequence[PastCall]) -> EntryTrial:
    covered = [one for one in past if entry.covers(one.question.request.call)]
    example = next((one for one in reversed(covered) if not lacks_places(one.question.request.call)), None)
    neighbours = None
    if example is not None:
        shell = None if example.asker is None else example.asker.shell
        neighbours = neighbours_of(entry.kind, example.question.request.call, policy.approvals, shell)
    return EntryTrial(entry, len(covered), neighbours)


def answer_in_words(past: PastCall) -> str:
    """Return what a person said about a past call."""
    verdict = past.question.verdict
    has_name = verdict is not None and verdict.by
    words = {
        CallAnswer.REMEMBERED: "answered by what was remembered",
        CallAnswer.PROGRAM: "answered by a program" if has_name else "answered without a name",
        CallAnswer.EXPIRED: "nobody decided in time",
        CallAnswer.NONE: "no answer",
    }
    if past.answer in words:
        return words[past.answer]
    said = {CallAnswer.APPROVED: "approved", CallAnswer.REJECTED: "rejected", CallAnswer.MODIFIED: "changed"}
    note = f": {verdict.note}" if verdict is not None and verdict.note else ""
    return f"{said[past.answer]} by {past.by}{note}"
