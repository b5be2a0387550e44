"""Advice on rules: entries of `approvals: allow:` learned from past calls, and what they would have changed.

A person reads the change of `workshop.yaml` that adds them, and commits it. Nothing is written here.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.workshop import with_allow_entries
from llm_do_temporal.extensions.rules.past_calls import CallAnswer, PastCall
from llm_do_temporal.extensions.rules.policy.lessons import (
    MIN_DAYS,
    MIN_RUNS,
    LearnedKind,
    Lesson,
    Opinion,
    learned_kinds,
)
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, decide
from llm_do_temporal.policy.delegation import is_template
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall, argv_of, callee_of, covering, place_of
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.workshop_search import WORKSHOP_FILE

MAX_EXAMPLES = 3
"""Examples of each sort that an entry is given."""
_MAX_EXAMPLE_CHARS = 200


@dataclass(frozen=True)
class LearnedEntry:
    """Entry that past calls speak for."""

    entry: AllowEntry
    learned: LearnedKind

    def as_json(self) -> dict[str, Any]:
        """The object of `rules suggest --json`."""
        first, last = self.learned.support[0], self.learned.support[-1]
        return {
            "entry": entry_mapping(self.entry),
            "sentence": self.entry.kind.sentence,
            "approved": len(self.learned.support),
            "runs": self.learned.runs,
            "days": self.learned.days,
            "people": list(self.learned.people),
            "first": {"run": first.run, "day": first.day.isoformat()},
            "last": {"run": last.run, "day": last.day.isoformat()},
        }


@dataclass(frozen=True)
class RuleAdvice:
    """Entries that would have spared people questions, and how many."""

    entries: tuple[LearnedEntry, ...]
    """Entries, the most useful first."""
    asked: int
    """Questions to people that today's rules would put to them, too."""
    left: int
    """Questions among them that the entries would have left to people."""
    wrong: int
    """Calls that a person refused or changed, and that the entries would have let through: none, or it is a mistake
    of the advice."""

    @property
    def saved(self) -> int:
        """Questions that the entries would have answered."""
        return self.asked - self.left


def advice_on(
    calls: Sequence[PastCall], rules: ApprovalRules, *, min_runs: int = MIN_RUNS, min_days: int = MIN_DAYS
) -> RuleAdvice:
    """Return the entries that the calls speak for, beside these rules of the workshop.

    Calls that today's rules would not put to a person are left out. What a person refused speaks against, also where
    the rules have changed since.
    """
    asked: list[PastCall] = []
    others: list[PastCall] = []
    for call in calls:
        is_asked = call.answer not in (CallAnswer.REMEMBERED, CallAnswer.PROGRAM) and would_ask(rules, call)
        (asked if is_asked else others).append(call)
    teaching = [*asked, *(call for call in others if call.speaks_against)]
    lessons = [lesson_of(rules, call) for call in teaching]
    learned = learned_kinds(lessons, rules.allow, min_runs=min_runs, min_days=min_days)
    refused = [call.question.request.call for call in calls if call.speaks_against]
    found = [LearnedEntry(_entry(one, refused), one) for one in learned]
    entries = tuple(one for one in found if not _has_key(one.entry))
    answered = [call for call in asked if not _is_left(rules, [one.entry for one in entries], call)]
    return RuleAdvice(
        entries=entries,
        asked=len(asked),
        left=len(asked) - len(answered),
        wrong=sum(call.answer.is_against for call in answered),
    )


def would_ask(rules: ApprovalRules, past: PastCall) -> bool:
    """Return whether these rules would put the call to a person, with their entries."""
    call = past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    if judged.kind != "ask":
        return False
    return judged.terms.names_people or covering(rules.allow, call) is None


def lesson_of(rules: ApprovalRules, past: PastCall) -> Lesson:
    """Return what the call teaches. Approvals of calls that no entry may answer, or that a worker made by a model
    asked for, teach nothing."""
    request, call = past.question.request, past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    opinion: Opinion = "none"
    if past.speaks_against:
        opinion = "against"
    elif past.answer is CallAnswer.APPROVED and not judged.terms.names_people and not request.generated:
        # What a template's call fills in makes another worker each time.
        opinion = "none" if is_template(request.worker) else "for"
    return Lesson(call, past.run, past.asked_at.date(), opinion, past.by)


def entry_mapping(entry: AllowEntry) -> dict[str, Any]:
    """Return the entry as it is written in YAML, without what it leaves open."""
    given = entry.model_dump(mode="json", exclude_defaults=True)
    last = {name: given.pop(name) for name in ("why", "match", "not_match") if name in given}
    return given | last


def _entry(learned: LearnedKind, refused: Iterable[AskedCall]) -> AllowEntry:
    """Return the kind with its reason, and examples that it really keeps."""
    kind, support = learned.kind, learned.support
    middle = support[len(support) // 2]
    match = _texts(lesson.call for lesson in (support[0], middle, support[-1]))
    near = _texts(call for call in refused if _is_near(kind.as_mapping(), call))
    entry = AllowEntry(**kind.as_mapping(), why=_why(learned))
    return entry.model_copy(
        update={"match": _kept(entry, "match", match), "not_match": _kept(entry, "not_match", near)}
    )


def _why(learned: LearnedKind) -> str:
    times, runs, days = len(learned.support), learned.runs, learned.days
    people = f" by {', '.join(learned.people)}" if learned.people else ""
    return f"approved {times} times in {runs} runs on {days} days{people}; never refused"


def _kept(entry: AllowEntry, key: str, texts: Iterable[str]) -> tuple[str, ...]:
    kept = (text for text in texts if not list(entry.model_copy(update={key: (text,)}).failed_examples()))
    return tuple(kept)[:MAX_EXAMPLES]


def _texts(calls: Iterable[AskedCall]) -> Iterator[str]:
    """Yield what stands for each call in an example, each text once."""
    texts = dict.fromkeys(text for call in calls if (text := _text(call)) is not None)
    return (text for text in texts if len(text) <= _MAX_EXAMPLE_CHARS)


def _text(call: AskedCall) -> str | None:
    argv, callee, place = argv_of(call), callee_of(call), place_of(call)
    if place is not None:
        return place.path
    if argv is not None:
        return shlex.join(argv)
    if callee is not None:
        return " ".join([callee, *(one.path for one in call.attachments)])
    return json.dumps(call.args, ensure_ascii=False, sort_keys=True)


def _is_near(kind: dict[str, Any], call: AskedCall) -> bool:
    """Return whether a call is of the tool that the kind is about, so that its example says something."""
    argv = argv_of(call)
    if "command" in kind:
        return argv is not None and argv[0] == shlex.split(kind["command"])[0]
    return callee_of(call) is not None if "worker" in kind else call.tool == kind["tool"]


def _has_key(entry: AllowEntry) -> bool:
    text = json.dumps(entry_mapping(entry), ensure_ascii=False)
    return remove_keys(text) != text


def _is_left(rules: ApprovalRules, entries: Sequence[AllowEntry], past: PastCall) -> bool:
    call = past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    return judged.terms.names_people or covering(entries, call) is None


def proposed_change(folder: Path, advice: RuleAdvice) -> str:
    """Return the change that adds the advised entries to the file of a workshop, as `patch` and `git apply` take it.

    Empty where there are none. Raises UsageError where the file has no place for them.
    """
    before = read_exactly(folder / WORKSHOP_FILE)
    return unified_diff(before, with_allow_entries(before, [entry_mapping(one.entry) for one in advice.entries]))


def read_exactly(path: Path) -> str:
    """Return a file's text with the line ends and the byte order mark that it has."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def unified_diff(before: str, after: str) -> str:
    """Return the change as `patch` and `git apply` take it; empty where nothing changes."""
    # Split at line feeds alone, as `patch` does.
    ours, theirs = ([line for line in re.split(r"(?<=\n)", text) if line] for text in (before, after))
    changes = difflib.unified_diff(ours, theirs, f"a/{WORKSHOP_FILE}", f"b/{WORKSHOP_FILE}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)
