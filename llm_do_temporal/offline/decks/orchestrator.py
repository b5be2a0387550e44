"""`offline:pitch-orchestrator`: lists decks, delegates each, writes the evaluations, sums up.

A script without state: every turn it looks at the conversation so far and takes the first step that is missing, so it
goes on wherever a run was interrupted. A step is never taken twice; only a rejected write whose note names another
file is written there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.messages import ModelResponsePart, TextPart, ToolCallPart

from llm_do_temporal.offline.decks.deck_choice import (
    DeckSelection,
    choose_decks,
    evaluation_paths,
    json_in,
    listed_decks,
)
from llm_do_temporal.offline.decks.delegation_choice import Delegate, find_delegate
from llm_do_temporal.offline.decks.evaluation_page import evaluation_page
from llm_do_temporal.offline.decks.outcome import DeckOutcome, summary
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of
from llm_do_temporal.offline.small_talk import NOT_A_MODEL, answer

LIST, LIST_DECKS, WRITE = "list_files", "list_decks", "write_file"
TASK = "Evaluate the attached pitch deck against your rubric. Quote the deck, with page numbers."
_FOLDER = re.compile(r"(?<![\w./])/[\w-]+(?:/[\w-]+)*(?![\w./-]*\.\w)")
_OTHER_FILE = re.compile(r"(?<![\w.])/[\w./-]+\.md\b")


@dataclass(frozen=True)
class _Position:
    """Steps that the conversation has behind it."""

    seen: SeenRequest
    listings: tuple[ToolResult, ...]
    choice: DeckSelection
    delegate: Delegate | None
    evaluations: tuple[ToolResult, ...]
    writes: tuple[ToolResult, ...]


def orchestrate(seen: SeenRequest) -> list[ModelResponsePart]:
    """Return the next step of the conversation: tool calls, or the summary."""
    position = _position(seen)
    for step in (_list, _delegate, _write, _write_elsewhere):
        parts = step(position)
        if parts:
            return parts
    return answer(seen, summary(_outcomes(position), unknown=position.choice.unknown))


def _position(seen: SeenRequest) -> _Position:
    listings = tuple(seen.results(LIST, LIST_DECKS))
    found = next((decks for decks in map(_decks, listings) if decks), ())
    delegate = find_delegate(seen.tools, seen.instructions)
    return _Position(
        seen=seen,
        listings=listings,
        choice=choose_decks(found, seen.prompt),
        delegate=delegate,
        evaluations=tuple(seen.results(delegate.tool.name)) if delegate else (),
        writes=tuple(seen.results(WRITE)),
    )


def _list(position: _Position) -> list[ModelResponsePart]:
    """Ask the tool that knows the decks; without it, list folders until one holds decks."""
    seen = position.seen
    if any(map(_decks, position.listings)):
        return []
    if LIST_DECKS in seen.tools and not position.listings:
        return _calls(seen, "Asking for the decks.", LIST_DECKS, [{}])
    if LIST_DECKS in seen.tools:
        problems = [result.text for result in position.listings if not result.ok]
        return _finish(seen, " ".join(["There are no decks.", *problems]))
    if LIST not in seen.tools:
        return _finish(seen, f"There is no tool '{LIST}' to find decks with.")
    tried = [result.args.get("path") for result in position.listings]
    folder = next((folder for folder in _folders(seen.prompt) if folder not in tried), None)
    if folder is None:
        failures = [f" {result.args.get('path')}: {result.text}" for result in position.listings if not result.ok]
        return _finish(seen, f"There are no decks: no PDF in {' or '.join(map(str, tried))}.{''.join(failures)}")
    arguments = {"path": folder, "pattern": "**/*.pdf"}
    return _calls(seen, f"Looking for decks in {folder}.", LIST, [arguments])


def _delegate(position: _Position) -> list[ModelResponsePart]:
    """Have every chosen deck evaluated, all in one turn."""
    seen, decks = position.seen, position.choice.decks
    if position.evaluations:
        return []
    if not decks:
        names = ", ".join(position.choice.unknown)
        return _finish(seen, f"No deck is called {names}. There are {', '.join(_found(position))}.")
    if position.delegate is None:
        return _finish(seen, f"There are {len(decks)} decks, but no tool to have them evaluated with.")
    calls = [position.delegate.arguments(deck, TASK) for deck in decks]
    return _calls(seen, f"Evaluating {_count(len(decks), 'deck')}.", position.delegate.tool.name, calls)


def _write(position: _Position) -> list[ModelResponsePart]:
    """Write a page for every evaluation that succeeded, all in one turn."""
    if position.writes or WRITE not in position.seen.tools:
        return []
    paths = _paths(position)
    pages = [
        {"path": paths[deck], "content": evaluation_page(deck, evaluation_in(result))}
        for deck, result in _by_deck(position).items()
        if result.ok
    ]
    return _calls(position.seen, f"Writing {_count(len(pages), 'evaluation')}.", WRITE, pages) if pages else []


def _write_elsewhere(position: _Position) -> list[ModelResponsePart]:
    """Write again to a file that a rejection names, if it has not been tried."""
    tried = {str(result.args.get("path")) for result in position.writes}
    again: dict[str, dict[str, Any]] = {}
    for result in position.writes:
        named = [path for path in _OTHER_FILE.findall(result.rejection or "") if path not in tried]
        if named and named[0] not in again:
            again[named[0]] = {"path": named[0], "content": result.args.get("content", "")}
    return _calls(position.seen, "Writing where the notes say.", WRITE, list(again.values())) if again else []


def _outcomes(position: _Position) -> list[DeckOutcome]:
    paths = _paths(position)
    return [
        DeckOutcome(
            deck=deck,
            evaluation=evaluation_in(result) if result.ok else None,
            problem="" if result.ok else result.rejection or result.text,
            writes=_writes_of(position, paths[deck]),
        )
        for deck, result in _by_deck(position).items()
    ]


def _writes_of(position: _Position, path: str) -> tuple[ToolResult, ...]:
    """Return the writes of this path, and those of the same content that a note asked for."""
    first = [result for result in position.writes if result.args.get("path") == path]
    contents = [result.args.get("content") for result in first]
    return tuple(result for result in position.writes if result in first or result.args.get("content") in contents)


def _by_deck(position: _Position) -> dict[str, ToolResult]:
    found: dict[str, ToolResult] = {}
    for result in position.evaluations:
        for deck in result.args.get("attachments") or ():
            found[str(deck)] = result
    return {deck: found[deck] for deck in position.choice.decks if deck in found}


def evaluation_in(result: ToolResult) -> Any:
    """Return the structured evaluation in a delegation's result, unwrapped if a tool wraps it; else its text."""
    data = json_in(result.text, result.data)
    for key in ("output", "result"):
        fields = fields_of(data)
        if "scores" not in fields and key in fields:
            data = json_in(str(fields[key]), fields[key])
    return fields_of(data) or str(data)


def _decks(listing: ToolResult) -> tuple[str, ...]:
    return listed_decks(json_in(listing.text, listing.data)) if listing.ok else ()


def _found(position: _Position) -> tuple[str, ...]:
    return next((decks for decks in map(_decks, position.listings) if decks), ())


def _paths(position: _Position) -> dict[str, str]:
    """Return the path of each evaluation: from the list of decks if it says so, else by the name of the deck."""
    rows = [fields_of(row) for listing in position.listings for row in _rows(listing.data)]
    named = {str(row["deck"]): str(row["evaluation"]) for row in rows if "deck" in row and "evaluation" in row}
    return {**evaluation_paths(position.choice.decks), **named}


def _rows(data: Any) -> list[Any]:
    return cast("list[Any]", data) if isinstance(data, list) else []


def _folders(prompt: str) -> list[str]:
    """Return the folders that the prompt names, then the usual folder, then the root."""
    return list(dict.fromkeys([*_FOLDER.findall(prompt), "/pipeline", "/"]))


def _calls(seen: SeenRequest, text: str, tool: str, arguments: list[dict[str, Any]]) -> list[ModelResponsePart]:
    accepted = seen.tools[tool].parameters_json_schema.get("properties", {})
    return [
        TextPart(text),
        *(
            ToolCallPart(
                tool,
                {key: value for key, value in call.items() if key in accepted},
                tool_call_id=f"call_{seen.turn}_{number}",
            )
            for number, call in enumerate(arguments, start=1)
        ),
    ]


def _finish(seen: SeenRequest, text: str) -> list[ModelResponsePart]:
    return answer(seen, f"{text}\n\n{NOT_A_MODEL}")


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
