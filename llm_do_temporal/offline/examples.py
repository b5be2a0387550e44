"""`offline:examples`: plays every worker of the workshop that ships.

A request does not name its worker. The part follows from a phrase of the worker's instructions, else from the tools
and files of the request. A new example adds its play, in a module of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

PARTS: dict[str, Play] = {
    "You keep notes": perform(keep_notes),
    "You answer questions of arithmetic": perform(calculate),
    "You analyze source code": perform(analyze),
    "You tidy a folder": perform(organize),
    "You rename a function": perform(rename),
    "You divide a task": perform(decompose),
    "You summarise a stretch": perform(summarise),
    "You turn the whiteboard": perform(plan),
    "You make specialists": perform(bootstrap),
    **{trade.instructions: perform(do_trade) for trade in TRADES},
    "You judge evaluations of pitch decks": perform(judge_evaluation),
    "You have pitch decks evaluated by code": perform(evaluate_by_code),
}
"""The play of each example, by a phrase that only its worker's instructions have."""


def play_examples(seen: SeenRequest) -> Sequence[ModelResponsePart]:
    """Answer as the worker whose request this is."""
    part = next((play for phrase, play in PARTS.items() if phrase in seen.instructions), None)
    return part(seen) if part else play_pitch_decks(seen)


def play_pitch_decks(seen: SeenRequest) -> Sequence[ModelResponsePart]:
    """Answer as any worker that evaluates pitch decks: the part follows from the tools and files of the request."""
    if wants_evaluation(seen):
        return evaluate(seen)
    return orchestrate(seen) if seen.tools else greet(seen)
