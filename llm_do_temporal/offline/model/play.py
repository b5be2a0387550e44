"""Plays written as generators: yield tool calls, get their results back, return the last words.

A play reads like the conversation it leads, and keeps no state: at every request it is started anew and sent
the results that the conversation holds already, so its steps must follow from the request alone. Plays of
single examples build on it; the engine must not know any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import ModelResponsePart, TextPart, ToolCallPart

from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult
from llm_do_temporal.offline.small_talk import NOT_A_MODEL, answer

Words = str | Mapping[str, Any]
"""Last words of a play: a text, or the fields it knows of a structured answer."""


@dataclass(frozen=True)
class Say:
    """Answer of a model: a line of text, and calls that are made side by side."""

    text: str
    calls: Sequence[PlayCall]


@dataclass(frozen=True)
class PlayCall:
    """Tool call; arguments that the tool does not take are left out."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])


PlaySteps = Generator[Say, list[ToolResult], Words]
"""Generator of a play: it yields answers, and is sent the results of their calls in order."""


def perform(play: Callable[[SeenRequest], PlaySteps]) -> Callable[[SeenRequest], list[ModelResponsePart]]:
    """Return the function that answers a request as the play does at that point of the conversation."""

    def act(seen: SeenRequest) -> list[ModelResponsePart]:
        steps = play(seen)
        try:
            answered = next(steps)
            for results in seen.rounds:
                answered = steps.send(results)
        except StopIteration as end:
            return _last_words(seen, end.value)
        return _spoken(seen, answered)

    return act


def ask(tool: str, text: str = "", **args: Any) -> Generator[Say, list[ToolResult], ToolResult]:
    """Make one call, for `result = yield from ask(...)`."""
    (result,) = yield Say(text or f"Calling {tool}.", [PlayCall(tool, args)])
    return result


def _spoken(seen: SeenRequest, say: Say) -> list[ModelResponsePart]:
    missing = [call.tool for call in say.calls if call.tool not in seen.tools]
    if missing or not say.calls:
        return _last_words(seen, f"This needs a tool '{missing[0]}', and there is none." if missing else say.text)
    return [TextPart(say.text), *(_call(seen, call, number) for number, call in enumerate(say.calls, start=1))]


def _call(seen: SeenRequest, call: PlayCall, number: int) -> ToolCallPart:
    accepted = seen.tools[call.tool].parameters_json_schema.get("properties", {})
    args = {key: value for key, value in call.args.items() if key in accepted}
    return ToolCallPart(call.tool, args, tool_call_id=f"call_{seen.turn}_{number}")


def _last_words(seen: SeenRequest, words: Words) -> list[ModelResponsePart]:
    if isinstance(words, str):
        return answer(seen, f"{words}\n\n{NOT_A_MODEL}")
    return answer(seen, str(words.get("text", "")), words)
