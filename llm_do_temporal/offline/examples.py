"""`offline:examples`: plays every worker of the workshop that ships.

A request does not name its worker. The part follows from a phrase of the worker's instructions, else from the tools
and files of the request. `offline:NAME`, like `offline:calculator`, plays one part whatever the instructions say. A new
example adds its play, in a module of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelResponsePart

from llm_do_temporal.offline.api_renamer import rename
from llm_do_temporal.offline.bootstrapper import TRADES, bootstrap, do_trade
from llm_do_temporal.offline.calculator import calculate
from llm_do_temporal.offline.code_analyzer import analyze
from llm_do_temporal.offline.decks.coded_evaluation import evaluate_by_code
from llm_do_temporal.offline.decks.evaluator import evaluate, wants_evaluation
from llm_do_temporal.offline.decks.judge import judge_evaluation
from llm_do_temporal.offline.decks.orchestrator import orchestrate
from llm_do_temporal.offline.file_organizer import organize
from llm_do_temporal.offline.model.play import perform
from llm_do_temporal.offline.model.seen import SeenRequest
from llm_do_temporal.offline.notes import keep_notes
from llm_do_temporal.offline.small_talk import greet
from llm_do_temporal.offline.summarizer import summarise
from llm_do_temporal.offline.task_decomposer import decompose
from llm_do_temporal.offline.whiteboard import plan

Play = Callable[[SeenRequest], Sequence[ModelResponsePart]]


@dataclass(frozen=True)
class ExamplePart:
    """Part of one example."""

    phrase: str
    """Phrase that only the instructions of its worker have."""
    play: Play


PARTS: dict[str, ExamplePart] = {
    "approvals-demo": ExamplePart("You keep notes", perform(keep_notes)),
    "calculator": ExamplePart("You answer questions of arithmetic", perform(calculate)),
    "code-analyzer": ExamplePart("You analyze source code", perform(analyze)),
    "file-organizer": ExamplePart("You tidy a folder", perform(organize)),
    "api-renamer": ExamplePart("You rename a function", perform(rename)),
    "task-decomposer": ExamplePart("You divide a task", perform(decompose)),
    "summarizer": ExamplePart("You summarise a stretch", perform(summarise)),
    "whiteboard-planner": ExamplePart("You turn the whiteboard", perform(plan)),
    "bootstrapper": ExamplePart("You make specialists", perform(bootstrap)),
    "evaluation-judge": ExamplePart("You judge evaluations of pitch decks", perform(judge_evaluation)),
    "pitch-orchestrator-coded": ExamplePart("You have pitch decks evaluated by code", perform(evaluate_by_code)),
}
"""Part of each example, by its worker's name with dashes. `offline:NAME` plays it whatever the instructions are."""
_MADE = [ExamplePart(trade.instructions, perform(do_trade)) for trade in TRADES]
"""Parts of the workers that the bootstrapper makes."""


def play_examples(seen: SeenRequest) -> Sequence[ModelResponsePart]:
    """Answer as the worker whose request this is."""
    play = _by_phrase(seen, [*PARTS.values(), *_MADE])
    return play(seen) if play else play_pitch_decks(seen)


def play_part(name: str) -> Play:
    """Return the play of one part, for a worker of any name and wording.

    Workers that it makes or calls inherit its model, and have parts of their own.
    """

    def play(seen: SeenRequest) -> Sequence[ModelResponsePart]:
        called = evaluate if wants_evaluation(seen) else _by_phrase(seen, _MADE)
        return (called or PARTS[name].play)(seen)

    return play


def play_pitch_decks(seen: SeenRequest) -> Sequence[ModelResponsePart]:
    """Answer as any worker that evaluates pitch decks: the part follows from the tools and files of the request."""
    if wants_evaluation(seen):
        return evaluate(seen)
    return orchestrate(seen) if seen.tools else greet(seen)


def _by_phrase(seen: SeenRequest, parts: Sequence[ExamplePart]) -> Play | None:
    return next((part.play for part in parts if part.phrase in seen.instructions), None)
