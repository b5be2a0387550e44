"""Outcomes of all decks, and the words with which the offline orchestrator ends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from llm_do_temporal.offline.decks.evaluation_page import average_score
from llm_do_temporal.offline.model.seen import ToolResult, fields_of
from llm_do_temporal.offline.small_talk import NOT_A_MODEL

MAX_FAILURE_CHARS = 300
_HEAD = "| Deck | Verdict | Average | File | First red flag |"


@dataclass(frozen=True)
class DeckOutcome:
    """Outcome of a deck: its evaluation or its problem, and the attempts to write a page."""

    deck: str
    evaluation: Any
    problem: str
    writes: tuple[ToolResult, ...]


def summary(outcomes: Sequence[DeckOutcome], *, unknown: Sequence[str] = ()) -> str:
    """Return the final text: a table of the evaluations, then all that did not go as asked.

    `unknown` are names in the prompt that no deck has.
    """
    done = [outcome for outcome in outcomes if not outcome.problem]
    failed = [outcome for outcome in outcomes if outcome.problem]
    written = sum(_written_to(outcome) is not None for outcome in done)
    lines = [f"Evaluated {len(done)} of {len(outcomes)} decks, wrote {written} files."]
    if done:
        lines += ["", _HEAD, "|---|---|---|---|---|", *map(_row, done)]
    troubles = [trouble for outcome in done for trouble in _unwritten(outcome)]
    troubles += [f"Not evaluated: {outcome.deck}: {_short(outcome.problem)}" for outcome in failed]
    troubles += [f"No deck is called {name}." for name in unknown]
    if troubles:
        lines += ["", *(f"- {trouble}" for trouble in troubles)]
    return "\n".join([*lines, "", NOT_A_MODEL])


def _row(outcome: DeckOutcome) -> str:
    facts = fields_of(outcome.evaluation)
    average = average_score(facts)
    cells = (
        outcome.deck,
        facts.get("verdict", "see file"),
        "-" if average is None else average,
        _written_to(outcome) or "not written",
        _first_flag(facts.get("red_flags")),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _first_flag(flags: Any) -> str:
    first = str(cast("list[Any]", flags)[0]) if isinstance(flags, list) and flags else "none"
    return first.replace("|", "/")


def _written_to(outcome: DeckOutcome) -> str | None:
    """Return the path of the written page as the tool reports it: a person may have changed it. None without a page."""
    for write in outcome.writes:
        if write.ok:
            return str(fields_of(write.data).get("path") or write.args.get("path"))
    return None


def _unwritten(outcome: DeckOutcome) -> list[str]:
    return [
        f'{write.args.get("path")} was not written: "{write.rejection}"'
        if write.rejection
        else f"{write.args.get('path')} could not be written: {_short(write.text)}"
        for write in outcome.writes
        if not write.ok
    ]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_FAILURE_CHARS else line[:MAX_FAILURE_CHARS].rstrip() + " [cut]"
