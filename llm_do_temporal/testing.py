"""Scripted models for tests of your own workshops.

A play is a model in a file of the workshop, `model: offline:plays.py:pitch`: a function of a `SeenRequest` that returns
a text, a mapping (a structured answer) or calls; or a generator that yields calls and is sent their results:

    @play
    def pitch(seen: SeenRequest) -> PlaySteps:
        (read,) = yield call("read_file", path="/pitch.md")
        return f"The pitch has {len(read.data['content'].split())} words."

In a test of Python, a model is a list of turns:

    model = scripted(call("write_file", path="/a.txt", content="hi"), "Written.")
    register_model("writer", model)          # workers in this process can now use `test:writer`
    ...
    assert "Rejected by" in model.requests[-1].results("write_file")[0].text

Which turn of a script comes next is read from the conversation, never from a counter, so one model
serves any number of runs and workers at once, and a crash or a retry in between changes nothing. Tests
and plays import this module, and nothing else does.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.messages import ModelMessage, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models import Model

from llm_do_temporal.offline.play import Call, Step, call, play
from llm_do_temporal.offline.play import PlaySteps as _PlaySteps
from llm_do_temporal.offline.script_model import SCRIPTS, TEST_PREFIX, ScriptModel, SeenRequest, ToolResult

__all__ = [
    "Call",
    "Fails",
    "PlaySteps",
    "ScriptedModel",
    "SeenRequest",
    "ToolResult",
    "call",
    "fails",
    "play",
    "register_model",
    "scripted",
]


@dataclass(frozen=True)
class Fails:
    """A turn that goes wrong the first `times` times it is asked, and is `then` afterwards."""

    error: Exception
    times: int
    then: Turn


PlaySteps = _PlaySteps
"""Type of a play that is a generator: it yields calls, is sent their results, and returns a text or a mapping."""
Turn = Step | Sequence[Step] | Mapping[str, Any] | Fails | Exception | Callable[[list[ModelMessage]], Any]
"""Answer of a scripted model to one request: text; one or several tool calls, with text among them or not; a mapping
as the structured output; an exception to raise; or a function of the messages, async or not, that returns one of
these."""


class ScriptedModel(ScriptModel):
    """A model that plays `turns`; `requests` holds what it was asked, in the order of asking."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__("test", "script", self._answer)
        self._turns = tuple(turns)
        self._failures: dict[int, int] = {}
        self.requests: list[SeenRequest] = []

    async def _answer(self, seen: SeenRequest) -> list[ModelResponsePart]:
        self.requests.append(seen)
        if seen.turn >= len(self._turns):
            raise AssertionError(f"the script has {len(self._turns)} turns, and was asked for turn {seen.turn + 1}")
        return await self._play(self._turns[seen.turn], seen)

    async def _play(self, turn: Turn, seen: SeenRequest) -> list[ModelResponsePart]:
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, Fails):
            failed = self._failures[id(turn)] = self._failures.get(id(turn), 0) + 1
            return await self._play(turn.error if failed <= turn.times else turn.then, seen)
        if callable(turn):
            made: Any = turn(list(seen.messages))
            return await self._play(await cast("Awaitable[Turn]", made) if inspect.isawaitable(made) else made, seen)
        if isinstance(turn, Mapping):
            outputs = seen.parameters.output_tools
            given = dict(turn)
            id_ = f"call_{seen.turn}_1"
            return [ToolCallPart(outputs[0].name, given, tool_call_id=id_) if outputs else TextPart(json.dumps(given))]
        steps = [turn] if isinstance(turn, str | Call) else turn
        return [_part(step, f"call_{seen.turn}_{number}") for number, step in enumerate(steps, start=1)]


def scripted(*turns: Turn) -> ScriptedModel:
    """A model that answers the first request of every conversation with the first turn, and so on.

    Asked for more turns than there are it raises AssertionError, which fails the run under test.
    """
    return ScriptedModel(turns)


def fails(error: Exception, *, times: int = 1, then: Turn) -> Fails:
    """A turn that raises `error` the first `times` times and then is `then`: for retries."""
    return Fails(error=error, times=times, then=then)


def register_model(name: str, model: Model) -> str:
    """Let worker services of this process serve `model` as `test:<name>`; that id is returned.

    A name registered before is replaced. Any Pydantic AI model will do.
    """
    SCRIPTS[name] = model
    return f"{TEST_PREFIX}{name}"


def _part(step: Step, call_id: str) -> ModelResponsePart:
    if isinstance(step, str):
        return TextPart(step)
    return ToolCallPart(step.tool, dict(step.args), tool_call_id=call_id)
