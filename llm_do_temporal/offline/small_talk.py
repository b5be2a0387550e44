"""`offline:echo` and `offline:greeter`: the two smallest scripts, for a first try and for wiring tests.

Each maps a request to an answer: text, or the structured value that the request asks for, with the text in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic_ai.messages import ModelResponsePart, TextPart, ToolCallPart

from llm_do_temporal.offline.model.schema_fit import fit
from llm_do_temporal.offline.model.seen import SeenRequest

NOT_A_MODEL = "This text comes from a script that ships with llm-do-temporal, not from a language model."
NOTHING: Mapping[str, Any] = MappingProxyType({})


def answer(seen: SeenRequest, text: str, known: Mapping[str, Any] = NOTHING) -> list[ModelResponsePart]:
    """Return `text` as the final answer in the shape the request asks for, with the values `known` by property name."""
    schema = seen.output_schema
    if schema is None or (seen.parameters.allow_text_output and not seen.parameters.output_object):
        return [TextPart(text)]
    value = fit(schema, known, text=text)
    if seen.parameters.output_tools:
        return [ToolCallPart(seen.parameters.output_tools[0].name, value, tool_call_id=f"call_{seen.turn}_0")]
    return [TextPart(json.dumps(value))]


def echo(seen: SeenRequest) -> list[ModelResponsePart]:
    """Answer with the prompt, unchanged."""
    return answer(seen, seen.prompt or "(The prompt was empty.)")


def greet(seen: SeenRequest) -> list[ModelResponsePart]:
    """Answer with a friendly line that repeats the prompt and names the script as the speaker."""
    words = " ".join(seen.prompt.split())
    heard = f'You said: "{words}". ' if words else ""
    return answer(seen, f"Hello, and welcome! {heard}{NOT_A_MODEL} Choose a real one with --model provider:name.")
