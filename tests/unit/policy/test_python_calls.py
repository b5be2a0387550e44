"""What a call of a Python tool uses, the arguments written short, and the key of a call."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.errors import ApprovalRefusal, EffectFailed
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.python_tools import call_arguments, idempotency_key, uses_of_call

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


@pytest.mark.parametrize(
    ("ruling", "asks"),
    [
        (None, None),  # the rules decide
        (Ruling.PRE_APPROVED, False),
        (Ruling.NEEDS_APPROVAL, True),
    ],
)
def test_the_tools_own_ruling_decides_whether_its_capabilities_ask(ruling: Ruling | None, asks: bool | None) -> None:
    uses = uses_of_call("send", ("python.call", "net.send"), ruling, digest="d")
    assert [(use.name, use.asks) for use in uses] == [("python.call", asks), ("net.send", asks)]
    assert uses[0].payload == {"tool": "send", "sha256": "d"}


def test_a_blocked_tool_is_refused_whatever_it_uses() -> None:
    with pytest.raises(ApprovalRefusal, match="'send' is blocked"):
        uses_of_call("send", ("python.call",), Ruling.BLOCKED, digest="d")


@pytest.mark.parametrize(
    ("parameters", "given", "arguments"),
    [
        (schema(["input"], input=TEXT, attachments={}), "go", {"input": "go"}),  # a worker
        (schema([], input=TEXT), "go", {"input": "go"}),
        (schema(["path"], path=TEXT, offset=NUMBER), "/a", {"path": "/a"}),  # the only text it needs
        (schema(["path", "content"], path=TEXT, content=TEXT), {"path": "/a"}, {"path": "/a"}),  # judged later
        (schema([]), {}, {}),
    ],
)
def test_a_text_is_the_argument_that_it_can_only_be(
    parameters: dict[str, Any], given: str | dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert call_arguments("tool", parameters, given) == arguments


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (schema(["path", "content"], path=TEXT, content=TEXT), "it takes 'path', 'content'"),
        (schema(["count"], count=NUMBER), "it takes 'count'"),
        (schema([], path=TEXT), "it takes 'path'"),
        ({"type": "object"}, "it takes nothing"),
    ],
)
def test_a_text_that_could_mean_several_things_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(EffectFailed, match=words):
        call_arguments("tool", parameters, "go")


def test_attachments_are_an_argument() -> None:
    parameters = schema(["input"], input=TEXT)
    assert call_arguments("sage", parameters, "go", ("/a",)) == {"input": "go", "attachments": ["/a"]}


def test_a_key_is_the_same_for_the_same_call_only() -> None:
    key = idempotency_key("r", "main", "send", {"a": 1, "b": 2}, 1)
    assert key == idempotency_key("r", "main", "send", {"b": 2, "a": 1}, 1)
    others = [
        idempotency_key("s", "main", "send", {"a": 1, "b": 2}, 1),
        idempotency_key("r", "main/x-1", "send", {"a": 1, "b": 2}, 1),
        idempotency_key("r", "main", "post", {"a": 1, "b": 2}, 1),
        idempotency_key("r", "main", "send", {"a": 1, "b": 3}, 1),
        idempotency_key("r", "main", "send", {"a": 1, "b": 2}, 2),
    ]
    assert len({key, *others}) == 6
    assert len(key) == 64
