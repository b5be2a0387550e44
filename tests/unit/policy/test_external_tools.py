"""Tools from elsewhere: names, rulings and capabilities."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from llm_do_temporal.errors import ApprovalRefusal, DefinitionError, EffectFailed
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.external import (
    ToolPolicy,
    call_arguments,
    check_names,
    idempotency_key,
    offered_names,
    policy_of,
    toolset_digest,
    uses_of_call,
    uses_of_external,
)

ASK, ALLOW, BLOCK = Ruling.NEEDS_APPROVAL, Ruling.PRE_APPROVED, Ruling.BLOCKED


@pytest.mark.parametrize(
    ("prefix", "names", "offered"),
    [
        (None, ["search"], ["search"]),
        ("my_", ["search"], ["my_search"]),
        (None, ["search notes", "files/read.all"], ["search_notes", "files_read_all"]),
        # a plain name keeps it, wherever it stands
        (None, ["a.b", "a_b"], ["a_b_2e7336dc", "a_b"]),
        (None, [""], ["_e3b0c442"]),
        ("my_", ["x" * 62], [f"my_{'x' * 52}_a95e9743"]),
    ],
)
def test_a_name_becomes_one_that_every_provider_takes(prefix: str | None, names: list[str], offered: list[str]) -> None:
    assert offered_names(prefix, names) == offered


@pytest.mark.parametrize(
    ("toolset", "tool", "asks", "ruling"),
    [
        (None, None, False, None),
        (ALLOW, None, False, ALLOW),
        # the tool's own wins over its toolset's
        (ALLOW, BLOCK, False, BLOCK),
        (BLOCK, ALLOW, False, ALLOW),
        # the toolset's own wish counts where the worker's file says nothing
        (None, None, True, ASK),
        (ALLOW, None, True, ALLOW),
    ],
)
def test_the_nearest_ruling_holds(
    toolset: Ruling | None, tool: Ruling | None, asks: bool, ruling: Ruling | None
) -> None:
    found = policy_of(ToolPolicy(ruling=toolset), {"t": ToolPolicy(ruling=tool)}, "t", asks=asks)
    assert found.ruling == ruling


def test_capabilities_of_a_tool_replace_those_of_its_toolset() -> None:
    toolset = ToolPolicy(capabilities=("a",))
    assert policy_of(toolset, {"t": ToolPolicy(capabilities=("b",))}, "t", asks=False).capabilities == ("b",)
    assert policy_of(toolset, {}, "t", asks=False).capabilities == ("a",)


@pytest.mark.parametrize(
    ("own", "said", "uses"),
    [
        (None, (), ["tool.call"]),
        (("net.read",), (), ["net.read"]),
        (None, ("net.write",), ["net.write"]),
        # what the toolset says is added, never subtracted
        (("net.read",), ("net.write", "net.read"), ["net.read", "net.write"]),
    ],
)
def test_a_call_uses_what_file_and_toolset_say(
    own: tuple[str, ...] | None, said: tuple[str, ...], uses: list[str]
) -> None:
    found = uses_of_external("t", ToolPolicy(capabilities=own, ruling=ASK), said, toolset="x.Y", sha256="0")
    assert [use.name for use in found] == uses
    assert all(use.asks for use in found)
    assert found[0].payload == {"tool": "t", "toolset": "x.Y", "sha256": "0"}


def test_a_blocked_tool_is_refused() -> None:
    with pytest.raises(ApprovalRefusal, match="'t' is blocked: the worker's file does not allow it"):
        uses_of_external("t", ToolPolicy(ruling=BLOCK), (), toolset="x.Y", sha256="0")


def test_two_tools_of_one_name_are_an_error_with_a_way_out() -> None:
    check_names([("a", "one"), ("b", "one")])
    with pytest.raises(
        DefinitionError, match=r"two tools are called 'a': one of 'filesystem', one of 'mcp\.My-Docs'"
    ) as e:
        check_names([("a", "filesystem"), ("a", "mcp.My-Docs")])
    assert "prefix: my_docs_" in (e.value.next_step or "")


def test_toolsets_that_say_the_same_are_the_same() -> None:
    assert toolset_digest("a") == toolset_digest("a") != toolset_digest("b")


def test_names_that_share_their_digits_are_numbered() -> None:
    begin = "x" * 70
    pair: dict[str, str] = {}
    for number in range(1_000_000):
        digits = hashlib.sha256(f"{begin}.{number}".encode()).hexdigest()[:8]
        if digits in pair:
            names = [pair[digits], f"{begin}.{number}", f"{begin}.{number}"]
            break
        pair[digits] = f"{begin}.{number}"
    else:
        raise AssertionError
    first, second, third = offered_names(None, names)
    assert len({first, second, third}) == 3
    assert all(len(name) <= 64 for name in (first, second, third))


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
