"""Pages of structured evaluations, as Markdown. Pure; used by the offline evaluator and orchestrator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

FOOTER = "*Written by an offline script of llm-do-temporal that follows fixed rules. It is not a language model.*"


def evaluation_page(deck: str, evaluation: Any) -> str:
    """Return the page for `deck`. A plain text is shown as it is, an evaluation of unknown shape as JSON."""
    if not isinstance(evaluation, Mapping):
        return (
            "\n\n".join([f"# Evaluation of {PurePosixPath(deck).name}", str(evaluation).strip(), "---", FOOTER]) + "\n"
        )
    facts = cast("Mapping[str, Any]", evaluation)
    scores = score_rows(facts)
    if not scores:
        body = ["```json\n" + json.dumps(facts, indent=2, ensure_ascii=False) + "\n```"]
    else:
        body = [
            _facts(deck, facts),
            str(facts.get("summary", "")),
            "## Scores",
            _table(scores),
            "## Evidence",
            *(f"**{_title(row)}**\n\n> {_line(row.get('evidence', ''))}" for row in scores),
            "## Red flags",
            _bullets(facts.get("red_flags", ())),
        ]
    return "\n\n".join([f"# Evaluation of {PurePosixPath(deck).name}", *body, "---", FOOTER]) + "\n"


def score_rows(evaluation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the scored dimensions of an evaluation; empty if it has none."""
    rows: Any = evaluation.get("scores")
    if not isinstance(rows, list):
        return []
    return [cast("Mapping[str, Any]", row) for row in cast("list[Any]", rows) if isinstance(row, Mapping)]


def average_score(evaluation: Mapping[str, Any]) -> float | None:
    """Return the mean of the scores to one decimal; None without scores."""
    values = [row["score"] for row in score_rows(evaluation) if isinstance(row.get("score"), int | float)]
    return round(sum(values) / len(values), 1) if values else None


def _facts(deck: str, evaluation: Mapping[str, Any]) -> str:
    return (
        f"- Deck: `{deck}`\n- Verdict: **{evaluation.get('verdict', 'none given')}**\n"
        f"- Average: {average_score(evaluation)} of 5"
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"| {_title(row)} | {row.get('score', '')} |" for row in rows]
    return "\n".join(["| Dimension | Score |", "|---|---|", *lines])


def _title(row: Mapping[str, Any]) -> str:
    return str(row.get("dimension", "?")).replace("_", " ").replace("|", "/").capitalize()


def _bullets(items: Any) -> str:
    texts = [f"- {_line(item)}" for item in cast("Sequence[Any]", items)] if isinstance(items, list | tuple) else []
    return "\n".join(texts) or "None found."


def _line(text: Any) -> str:
    return " ".join(str(text).split())
