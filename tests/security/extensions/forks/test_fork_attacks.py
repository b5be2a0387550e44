"""Forks: nothing is taken for the same that is another, whoever writes the record, and no fork reaches real files."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.activities.models.conversations import key_of_conversation, key_of_offer
from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import shown_digest
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extensions.forks.messages import ForkIndex, ForkSource
from llm_do_temporal.messages.approvals import DeskState, RequestApprovalInput, ScriptedAnswer
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import SeenFile, call_key, turn_key
from llm_do_temporal.policy.values import LIMIT, REPEAT, CapabilityUse
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from tests.support.runs.place import Place
from tests.support.workflow.desk_questions import NOON, request, write

DIGEST, OTHER = "a" * 64, "b" * 64
CONVERSATION: list[dict[str, Any]] = [
    {
        "kind": "request",
        "parts": [
            {
                "part_kind": "user-prompt",
                "timestamp": "2026-01-01T00:00:00Z",
                "content": [
                    "Read it.",
                    {
                        "kind": "document-url",
                        "url": f"llmdo-blob:sha256/{DIGEST}#deck.pdf",
                        "media_type": "application/pdf",
                    },
                ],
            }
        ],
    },
    {
        "kind": "response",
        "timestamp": "2026-01-01T00:00:01Z",
        "model_name": "m",
        "provider_response_id": "r1",
        "usage": {"input_tokens": 7, "output_tokens": 2},
        "parts": [
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_name": "read_file", "args": {"path": "/a", "n": 1}, "tool_call_id": "c1"},
            {"part_kind": "tool-call", "tool_name": "read_file", "args": {"path": "/b", "n": 1}, "tool_call_id": "c2"},
        ],
    },
    {
        "kind": "request",
        "parts": [
            {
                "part_kind": "tool-return",
                "tool_name": "read_file",
                "content": one,
                "tool_call_id": f"c{number}",
                "timestamp": "2026-01-01T00:00:02Z",
            }
            for number, one in enumerate(({"text": "alpha", "of": 9}, "beta"), 1)
        ],
    },
]
NOT_TOLD = ("timestamp", "usage", "model_name", "provider_response_id")
"""Fields that no model is told."""
SETTINGS: dict[str, Any] = {"temperature": 0, "extra": {"top_k": 3}}
OFFER = ModelRequestParameters(
    function_tools=[
        ToolDefinition(
            name="read_file",
            description="Read.",
            parameters_json_schema={"type": "object", "properties": {"path": {"type": "string"}}},
        )
    ]
)


def said(messages: list[dict[str, Any]]) -> str:
    return key_of_conversation(ModelMessagesTypeAdapter.validate_python(messages))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all texts and numbers in a JSON value."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[Any]", value)):
            yield from places(inner, (*path, number))
    else:
        yield path


def changed(messages: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    found = copy.deepcopy(messages)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = change(inner[path[-1]])
    return found


def other_value(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else f"{value}."


TOLD = [
    path
    for path in places(CONVERSATION)
    if not set(path) & {*NOT_TOLD, "kind", "part_kind", "tool_call_id", "media_type"}
]


@pytest.mark.parametrize("path", TOLD, ids=lambda path: ".".join(map(str, path)))
def test_whatever_the_model_was_told_changes_the_key(path: tuple[Any, ...]) -> None:
    assert said(changed(CONVERSATION, path, other_value)) != said(CONVERSATION)


def test_ids_times_usage_and_the_order_of_keys_do_not_change_it() -> None:
    chance = random.Random(1)

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            given = cast("dict[str, Any]", value)
            names = list(given)
            chance.shuffle(names)
            return {name: shuffled(given[name]) for name in names}
        return [shuffled(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value

    others = shuffled(copy.deepcopy(CONVERSATION))
    for message in others:
        message.pop("timestamp", None)
        if message["kind"] == "response":
            message |= {"usage": {"input_tokens": 99}, "model_name": "x", "provider_response_id": "r2"}
        for part in message["parts"]:
            part.pop("timestamp", None)
            if "tool_call_id" in part:
                part["tool_call_id"] = f"other-{part['tool_call_id']}"
    assert said(others) == said(CONVERSATION)


def test_results_that_were_exchanged_are_others() -> None:
    exchanged = copy.deepcopy(CONVERSATION)
    one, two = exchanged[2]["parts"]
    one["tool_call_id"], two["tool_call_id"] = two["tool_call_id"], one["tool_call_id"]
    assert said(exchanged) != said(CONVERSATION)


@pytest.mark.parametrize(
    "pair",
    [
        ('"a"', "a"),
        ("[1]", "1"),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": "1"}', '{"a": 1}'),
        ('{"a": null}', "{}"),
        ("[" * 100_000, "[" * 99_999),
        ('{"a": "\\u0000"}', '{"a": ""}'),
    ],
)
def test_arguments_that_a_model_chose_to_look_alike_are_told_apart(pair: tuple[str, str]) -> None:
    keys = {said(changed(CONVERSATION, (1, "parts", 1, "args"), lambda _, args=args: args)) for args in pair}
    assert len(keys) == 2


def test_the_border_between_parts_counts() -> None:
    keys = {
        call_key("t", "tool", {"a": "bc"}, 1),
        call_key("t", "tool", {"ab": "c"}, 1),
        call_key("t", "toola", {"": "bc"}, 1),
        call_key("tt", "ool", {"a": "bc"}, 1),
        call_key("t", "tool", {"a": "bc"}, 11),
    }
    assert len(keys) == 5


def test_model_settings_tools_and_instructions_change_the_key_of_a_turn() -> None:
    offered = {"parameters": key_of_offer(OFFER), "instructions": "Do it.", "max_tokens": None}
    tool = OFFER.function_tools[0]
    schema = changed(tool.parameters_json_schema, ("properties", "path", "type"), other_value)
    tools = (
        replace(tool, name="read_files"),
        replace(tool, description="Read!"),
        replace(tool, parameters_json_schema=schema),
    )
    offers = [ModelRequestParameters(function_tools=[one]) for one in tools]
    keys = [
        turn_key("m", SETTINGS, offered, "s"),
        turn_key("n", SETTINGS, offered, "s"),
        turn_key("m", {**SETTINGS, "temperature": 1}, offered, "s"),
        turn_key("m", changed(SETTINGS, ("extra", "top_k"), other_value), offered, "s"),
        turn_key("m", SETTINGS, {**offered, "instructions": "Do it!"}, "s"),
        turn_key("m", SETTINGS, {**offered, "max_tokens": 9}, "s"),
        turn_key("m", SETTINGS, offered, "t"),
        *(turn_key("m", SETTINGS, {**offered, "parameters": key_of_offer(one)}, "s") for one in offers),
    ]
    assert len(set(keys)) == len(keys)


SHOWN = write(
    content_key="k",
    diff="+hi",
    files=(SeenFile(path="/a.txt", place="a.txt", sha256=DIGEST, mode=0o644, after=OTHER),),
    attachments=(Attachment(path="/b.pdf", sha256=DIGEST, bytes=3, media_type="application/pdf"),),
    circumstances=DIGEST,
)


def answered(question: RequestApprovalInput) -> bool:
    """Whether the decision about SHOWN, taken over by a fork, answers the question."""
    taken = ScriptedAnswer(
        tool=SHOWN.tool, content_key=SHOWN.content_key, shown=shown_digest(SHOWN), decision="approve", by="ada"
    )
    state = desk.with_request(DeskState(script=(taken,)), question, now=NOON, scripted=False)
    return state[1].verdict is not None


def test_a_decision_is_taken_over_for_the_very_same_question() -> None:
    assert answered(SHOWN)
    assert answered(SHOWN.model_copy(update={"invocation": "fork/main", "key": "7"}))


@pytest.mark.parametrize(
    "change",
    [
        {"args": {"path": "/a.txt", "content": "hi "}},
        {"diff": "+hi "},
        {"content_key": "l"},
        {"circumstances": OTHER},
        {"attachments": (SHOWN.attachments[0].model_copy(update={"sha256": OTHER}),)},
        {"attachments": ()},
        {"files": (SHOWN.files[0].model_copy(update={"sha256": OTHER}),)},
        {"files": (SHOWN.files[0].model_copy(update={"mode": 0o755}),)},
        {"files": (SHOWN.files[0].model_copy(update={"place": "link/a.txt"}),)},
        {"capabilities": (*SHOWN.capabilities, CapabilityUse(name="sandbox.write.definitions"))},
        {"approvers": ("bob",)},
        {"quorum": 2},
    ],
    ids=lambda change: "+".join(change),
)
def test_no_decision_is_taken_over_where_anything_shown_differs(change: dict[str, Any]) -> None:
    assert not answered(SHOWN.model_copy(update=change))


@pytest.mark.parametrize("name", [LIMIT, REPEAT])
def test_no_decision_about_a_limit_or_an_unknown_outcome_is_taken_over(name: str) -> None:
    question = request(tool="shell", capabilities=(CapabilityUse(name=name),), content_key="k")
    taken = ScriptedAnswer(tool="shell", content_key="k", shown=shown_digest(question), decision="approve", by="ada")
    state = desk.with_request(DeskState(script=(taken,)), question, now=NOON, scripted=False)
    assert state[1].verdict is None


async def test_no_fork_that_somebody_wrote_by_hand_writes_into_files(place: Place) -> None:
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    blobs = workshop_blobs(place.folder)
    mine = blobs.put_bytes(ForkIndex(run="mine", execution="1").model_dump_json().encode())
    loaded = blobs.put_bytes(
        ForkIndex(run="mine", execution="1", answers=(ScriptedAnswer(decision="approve"),)).model_dump_json().encode()
    )
    for fork, says in (
        (ForkSource(run="mine", index=mine), "would write into the workshop's files"),
        (ForkSource(run="yours", index=mine, in_place=True), "is not of run 'yours'"),
        (ForkSource(run="mine", index=loaded, in_place=True), "is one for a fork"),
        (ForkSource(run="mine", index=OTHER, in_place=True), "is not in the blob store"),
    ):
        run = await place.start("main", mode="approve_all", parts={"forks": fork.model_dump()})
        with pytest.raises(LlmDoError, match=says):
            await place.client.result(run)
    assert not (place.folder / "a.txt").exists()
