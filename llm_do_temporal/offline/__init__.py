"""Models that need no key: `offline:<name>`. They are scripts, not language models.

They exist so that a workshop can be tried, demonstrated and tested on a laptop with no account anywhere.
Each is a function of the request that a provider would see (messages, tools, schemas, attached bytes) and keeps
no state between requests, so a run goes on with them after any crash. Model serving calls
`offline_model`; no other module may depend on the words of a script.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelResponsePart
from pydantic_ai.models import Model

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline.by_hand import call_by_hand
from llm_do_temporal.offline.decks.evaluator import evaluate
from llm_do_temporal.offline.decks.orchestrator import orchestrate
from llm_do_temporal.offline.examples import PARTS, Play, play_examples, play_part, play_pitch_decks
from llm_do_temporal.offline.model.play import perform
from llm_do_temporal.offline.model.script_model import Script, ScriptModel
from llm_do_temporal.offline.model.scripts import SCRIPTS, TEST_PREFIX
from llm_do_temporal.offline.model.seen import SeenRequest
from llm_do_temporal.offline.notes import keep_notes
from llm_do_temporal.offline.small_talk import echo, greet
from llm_do_temporal.pdf.reader import in_thread

__all__ = ["OFFLINE_NAMES", "offline_model"]


_PLAYS: dict[str, Play] = {
    "by-hand": perform(call_by_hand),
    "echo": echo,
    "examples": play_examples,
    "greeter": greet,
    "notes": perform(keep_notes),
    "pitch-decks": play_pitch_decks,
    "pitch-evaluator": evaluate,
    "pitch-orchestrator": orchestrate,
    **{name: play_part(name) for name in PARTS},
}

OFFLINE_NAMES = tuple(_PLAYS)
"""Names of the models, without `offline:`."""


def offline_model(name: str) -> Model:
    """Return the model called `offline:<name>`, or the one that a test registered if `name` is `test:<name>`.

    Raises ModelFailed, which lists the known names, for an unknown one.
    """
    if name.startswith(TEST_PREFIX):
        return _registered(name.removeprefix(TEST_PREFIX))
    if name not in _PLAYS:
        raise ModelFailed(
            f"there is no offline model 'offline:{name}'; there are {_list('offline:', OFFLINE_NAMES)}",
            next_step="Choose one of these, or a real model as provider:name.",
        )
    return ScriptModel("offline", f"{name}-script", _in_thread(_PLAYS[name]))


def _registered(name: str) -> Model:
    if name not in SCRIPTS:
        raise ModelFailed(
            f"no test model '{name}' is registered in this process; there are {_list(TEST_PREFIX, tuple(SCRIPTS))}",
            next_step="Call llm_do_temporal.testing.register_model in the process of the worker service.",
        )
    return SCRIPTS[name]


def _in_thread(play: Play) -> Script:
    async def script(seen: SeenRequest) -> Sequence[ModelResponsePart]:
        # Reading a large PDF takes seconds of computing; the event loop must go on heartbeating meanwhile.
        return await in_thread(play, seen)

    return script


def _list(prefix: str, names: Sequence[str]) -> str:
    return ", ".join(f"{prefix}{name}" for name in names) or "none"
