"""The servers of the tests refuse what the providers refuse, so that tests of conversations can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dialects import anthropic, chat, google, responses
from tests.support.dialects.answers import signed

USER = {"role": "user", "content": "Go."}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
TOOL_USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
TURN = {"role": "user", "parts": [{"text": "Go."}]}
FUNCTION_CALL: dict[str, Any] = {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]}


def told(*items: Any, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": list(items),
        "input": list(items),
        "contents": list(items),
        **more,
    }


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            chat,
            told(
                USER,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
            ),
        ),
        (
            responses,
            told(
                USER,
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "x"},
            ),
        ),
        (
            anthropic,
            told(
                USER,
                assistant(TOOL_USE),
                user(RESULT, {"type": "text", "text": "Well?"}),
                user({"type": "text", "text": "Go on."}),
            ),
        ),
        (
            google,
            told(
                TURN, FUNCTION_CALL, {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}]}
            ),
        ),
    ],
)
def test_a_whole_conversation_is_taken(dialect: Any, body: dict[str, Any]) -> None:
    assert dialect.check(body, {}) is None


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (chat, told(), "too short"),
    (chat, told({"role": "assistant", "content": None}), "expected 'content'"),
    (chat, told(USER, {"role": "tool", "tool_call_id": "c1", "content": "x"}), "no preceding tool_calls"),
    (chat, told(USER, {"role": "assistant", "tool_calls": [CALL]}, USER), "without a response"),
    (chat, told({"role": "user", "content": [{"type": "retry"}]}), "invalid content parts"),
    (chat, told({**USER, "thinking": "x"}), "unrecognized"),
    (chat, told({"role": "model", "content": "x"}), "invalid role"),
    (responses, told(), "missing required parameter"),
    (responses, told({"type": "function_call_output", "call_id": "c1", "output": "x"}), "no tool call found"),
    (
        responses,
        told({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}),
        "no tool output found",
    ),
    (responses, told({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{"}), "no JSON object"),
    (
        responses,
        told({"type": "function_call", "call_id": "c1", "name": "f", "id": "fc_1_0_r", "arguments": "{}"}),
        "required 'reasoning'",
    ),
    (responses, told({"type": "reasoning", "id": "rs_1", "summary": []}, USER), "required following item"),
    (responses, told({"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}, USER), "could not be verified"),
    (responses, told({"type": "additional_tools", "tools": []}), "invalid value"),
    (responses, told(user({"type": "output_text", "text": "x"})), "invalid content of user"),
    (anthropic, {"messages": [USER]}, "max_tokens"),
    (anthropic, told(assistant(TOOL_USE)), "first message"),
    (anthropic, told(USER, assistant()), "non-empty content"),
    (anthropic, told(user({"type": "text", "text": " "})), "must be non-empty"),
    (anthropic, told(USER, {"role": "system", "content": "x"}), "Unexpected role"),
    (anthropic, told(USER, assistant(TOOL_USE), USER), "without `tool_result`"),
    (anthropic, told(USER, user(RESULT)), "unexpected `tool_use_id`"),
    (anthropic, told(USER, assistant(TOOL_USE), user({"type": "text", "text": "x"}, RESULT)), "must come first"),
    (
        anthropic,
        told(USER, assistant({"type": "thinking", "thinking": "x", "signature": "y"})),
        "Invalid `signature`",
    ),
    (
        anthropic,
        told(USER, assistant({"type": "thinking", "thinking": "x", "signature": signed("x")})),
        "cannot be `thinking`",
    ),
    (anthropic, told(user({"type": "retry"})), "does not match any"),
    (
        anthropic,
        told(USER, thinking={"type": "enabled", "budget_tokens": 5}, tool_choice={"type": "any"}),
        "may not be",
    ),
    (google, told(), "not specified"),
    (google, told(FUNCTION_CALL), "begins with a user turn"),
    (google, told({"role": "user", "parts": []}), "must have a role and parts"),
    (google, told({"role": "user", "parts": [{"retry": "x"}]}), "one kind of data"),
    (google, told(TURN, FUNCTION_CALL, TURN), "number of function response parts"),
    (
        google,
        told(TURN, TURN | {"parts": [{"functionResponse": {"name": "read"}}]}),
        "immediately after a function call",
    ),
    (google, told(TURN, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "eA=="}]}), "not valid"),
]


@pytest.mark.parametrize(("dialect", "body", "complaint"), REFUSED)
def test_what_a_provider_refuses_is_refused(dialect: Any, body: dict[str, Any], complaint: str) -> None:
    assert complaint in dialect.check(body, {})
