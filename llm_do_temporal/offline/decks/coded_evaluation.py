"""The offline model of an orchestrator whose work is done by a Python function: it calls the function, and reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from llm_do_temporal.offline.decks.deck_choice import choose_decks, listed_decks
from llm_do_temporal.offline.model.play import PlaySteps, ask
from llm_do_temporal.offline.model.seen import SeenRequest, fields_of

LIST, EVALUATE = "list_decks", "evaluate_decks"


def evaluate_by_code(seen: SeenRequest) -> PlaySteps:
    """Find out which decks the request means, have them evaluated in one call, and report the results."""
    listing = yield from ask(LIST, "Looking which decks there are.")
    decks = listed_decks(listing.data)
    if not decks:
        return f"There is no deck to evaluate. {'' if listing.ok else listing.text}".strip()
    choice = choose_decks(decks, seen.prompt)
    everything = choice.decks == decks and not choice.unknown
    names = [] if everything else [*(PurePosixPath(deck).stem for deck in choice.decks), *choice.unknown]
    done = yield from ask(EVALUATE, "Having them evaluated.", names=names)
    if not done.ok:
        return f"Nothing was evaluated: {done.text}"
    rows = [fields_of(row) for row in cast("list[Any]", done.data or [])]
    table = ["| Deck | Verdict | Average | File |", "|---|---|---|---|", *map(_row, rows)]
    problems = [f"- {row.get('deck')}: {row['problem']}" for row in rows if "problem" in row]
    return "\n\n".join(filter(None, ["\n".join(table), "\n".join(problems), done.note]))


def _row(row: Mapping[str, Any]) -> str:
    cells = (row.get("deck"), row.get("verdict", "-"), row.get("average", "-"), row.get("file", "not written"))
    return f"| {' | '.join(map(str, cells))} |"
