"""Plays: functions of a request that answer as a model would, and what is made of their answers.

A play is a plain function, or a generator that yields calls and gets their results. It keeps no state: at each request
a generator is started again and sent the results that the conversation has already, so its steps must follow from the
request alone. The engine must not know any play.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pydantic_ai.messages import ModelResponsePart, TextPart, ToolCallPart

from llm_do_temporal.definitions.tools.plays import PLAY_MARK
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.base import read_json
from llm_do_temporal.offline.schema_fit import fit
from llm_do_temporal.offline.script_model import SeenRequest, ToolResult


@dataclass(frozen=True)
class Call:
    """A tool call in a script. Of a play, arguments that the tool does not take are left out."""

    tool: str
    args: Mapping[str, Any]


Step = str | Call
Words = str | Mapping[str, Any]
"""Last words of a play: a text, or the fields that it knows of a structured answer; the others get small values."""
PlaySteps = Generator[Step | Sequence[Step], list[ToolResult], Words]
"""Generator of a play: it yields a call, or several with text among them, and is sent their results in order."""
Play = Callable[[SeenRequest], Step | Sequence[Step] | Mapping[str, Any] | PlaySteps]

P = TypeVar("P", bound=Play)


def play(function: P) -> P:
    """Mark a function of a workshop's Python file as a model, `offline:FILE.py:FUNCTION`."""
    setattr(function, PLAY_MARK, True)
    return function


def call(tool: str, /, **args: Any) -> Call:
    """A turn, or a part of one, that calls `tool` with these arguments."""
    return Call(tool=tool, args=args)


def ask(tool: str, text: str, /, **args: Any) -> Generator[Sequence[Step], list[ToolResult], ToolResult]:
    """Make one call, for `result = yield from ask(...)`."""
    (result,) = yield [text, Call(tool, args)]
    return result


def perform(made_by: Play, signature: str = "") -> Callable[[SeenRequest], list[ModelResponsePart]]:
    """Return the function that answers a request as the play does at that point of the conversation.

    `signature` is added to a text with which the play ends. The function raises DefinitionError for an answer that is
    none, and passes what the play raises.
    """

    def act(seen: SeenRequest) -> list[ModelResponsePart]:
        made: object = made_by(seen)
        if not isinstance(made, Generator):
            return _parts(seen, made, signature)
        steps = cast("Generator[object, list[ToolResult], object]", made)
        try:
            said = next(steps)
            for results in seen.rounds:
                said = steps.send(results)
        except StopIteration as end:
            if not isinstance(end.value, str | Mapping):
                step = "In a generator, yield the calls, and return a text or a mapping."
                raise DefinitionError(f"it ended with {_kind(end.value)}", next_step=step) from None
            return _parts(seen, cast("object", end.value), signature)
        return _parts(seen, said, signature)

    return act


def answer(seen: SeenRequest, text: str, known: Mapping[str, Any] = MappingProxyType({})) -> list[ModelResponsePart]:
    """Return `text` as the final answer in the shape the request asks for, with the values `known` by property name."""
    schema = seen.output_schema
    if schema is None or (seen.parameters.allow_text_output and not seen.parameters.output_object):
        return [TextPart(text)]
    value = fit(schema, known, text=text)
    if seen.parameters.output_tools:
        return [ToolCallPart(seen.parameters.output_tools[0].name, value, tool_call_id=f"call_{seen.turn}_0")]
    return [TextPart(json.dumps(value))]


def _parts(seen: SeenRequest, said: object, signature: str) -> list[ModelResponsePart]:
    if isinstance(said, Mapping):
        known = _plain(cast("Mapping[str, Any]", said))
        return answer(seen, str(known.get("text", "")), known)
    steps = _steps(said)
    calls = [step for step in steps if isinstance(step, Call)]
    missing = next((one.tool for one in calls if one.tool not in seen.tools), None)
    if missing is not None or not calls:
        text = "\n".join(map(str, steps)) if missing is None else f"This needs a tool '{missing}', and there is none."
        return answer(seen, f"{text}\n\n{signature}" if signature else text)
    return [
        TextPart(step) if isinstance(step, str) else _call(seen, step, number)
        for number, step in enumerate(steps, start=0 if isinstance(steps[0], str) else 1)
    ]


def _steps(said: object) -> list[Step]:
    if isinstance(said, str | Call):
        return [said]
    steps = list(cast("Sequence[object]", said)) if isinstance(said, list | tuple) else []
    if not steps or not all(isinstance(step, str | Call) for step in steps):
        step = "In a play, return a text, a mapping, or calls made with `call`."
        raise DefinitionError(f"it answered {_kind(cast('object', said))}", next_step=step)
    return cast("list[Step]", steps)


def _call(seen: SeenRequest, asked: Call, number: int) -> ToolCallPart:
    accepted = seen.tools[asked.tool].parameters_json_schema.get("properties", {})
    args = {key: value for key, value in asked.args.items() if key in accepted}
    return ToolCallPart(asked.tool, _plain(args), tool_call_id=f"call_{seen.turn}_{number}")


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping as JSON holds it. Raises DefinitionError where JSON cannot hold it."""
    try:
        return read_json(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DefinitionError(f"it answered what JSON cannot hold: {error}") from None


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
