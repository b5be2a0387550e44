"""`offline:pitch-evaluator`: reads the attached PDF and scores it by rules on words and numbers.

The script really reads the file, quotes it, and says so if it cannot. It does not understand
a sentence, sees no picture, and can be fooled by any deck that uses the right words.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic_ai.messages import BinaryContent, ModelResponsePart, TextPart, ToolCallPart

from llm_do_temporal.offline.decks.deck import Deck, UnreadableDeck, read_deck
from llm_do_temporal.offline.decks.evaluation_page import evaluation_page
from llm_do_temporal.offline.decks.scores import Assessment, assess, unread
from llm_do_temporal.offline.model.schema_fit import fit
from llm_do_temporal.offline.model.seen import SeenRequest

PDF = "application/pdf"
BY_RULES = "Scored by a script with rules on words and numbers, not by a language model."


def wants_evaluation(seen: SeenRequest) -> bool:
    """Whether the request asks for an evaluation: by its schema, or by an attached PDF without any tools."""
    schema = seen.output_schema
    if schema is not None:
        return "verdict" in schema.get("properties", {})
    return not seen.tools and any(item.media_type == PDF for item in seen.attachments)


def evaluate(seen: SeenRequest) -> list[ModelResponsePart]:
    """Return the evaluation of the attached deck, in the shape the request asks for."""
    evaluation = _evaluation(seen)
    schema = seen.output_schema
    if schema is None:
        return [TextPart(evaluation_page(_name(seen), evaluation))]
    value = fit(schema, evaluation, text="not assessed by this script")
    if seen.parameters.output_tools:
        return [ToolCallPart(seen.parameters.output_tools[0].name, value, tool_call_id=f"call_{seen.turn}_0")]
    return [TextPart(json.dumps(value))]


def _evaluation(seen: SeenRequest) -> dict[str, Any]:
    attached = _attached(seen)
    if attached is None:
        reason = "no PDF was attached"
        return _as_dict(f"Nothing was evaluated: {reason}.", unread(f"nothing read: {reason}", f"Not read: {reason}."))
    try:
        deck = read_deck(attached.data)
    except UnreadableDeck as error:
        return _as_dict(
            f"Nothing was evaluated: '{_name(seen)}' cannot be opened, {error}.",
            unread(f"nothing read: the file cannot be opened, {error}", f"The file cannot be opened: {error}."),
        )
    return _of_images(deck) if not deck.words else _of_text(deck)


def _of_text(deck: Deck) -> dict[str, Any]:
    result = assess(deck)
    best = max(result.scores, key=lambda score: score.score)
    worst = min(result.scores, key=lambda score: score.score)
    return _as_dict(
        f"{deck.title}: {deck.extent}, average {result.average} of 5. "
        f"Strongest on {_readable(best.dimension)} ({best.score}), weakest on {_readable(worst.dimension)} "
        f"({worst.score}).",
        result,
    )


def _of_images(deck: Deck) -> dict[str, Any]:
    alone = len(deck.pages) == 1
    evidence = f"no readable text on {'its only page' if alone else f'any of {deck.extent}'}"
    pictures = sum(page.has_images for page in deck.pages)
    which = "its only page is a picture" if alone else f"{pictures} of {deck.extent} are pictures"
    flag = f"Images only: {which} without text; needs a model with eyes." if pictures else f"Empty: {evidence}."
    return _as_dict(f"Nothing was evaluated: {evidence}. This script cannot see pictures.", unread(evidence, flag))


def _as_dict(summary: str, result: Assessment) -> dict[str, Any]:
    return {
        "summary": f"{summary} {BY_RULES}",
        "scores": [asdict(score) for score in result.scores],
        "average": result.average,
        "verdict": result.verdict,
        "red_flags": list(result.red_flags),
    }


def _attached(seen: SeenRequest) -> BinaryContent | None:
    return next((item for item in seen.attachments if item.media_type == PDF), None)


def _name(seen: SeenRequest) -> str:
    attached = _attached(seen)
    return attached.identifier if attached else "no deck"


def _readable(dimension: str) -> str:
    return dimension.replace("_", " ")
