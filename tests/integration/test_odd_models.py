"""Whatever a model sends, its workflow goes on: the model is told, or the run fails with a reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from llm_do_temporal.errors import BudgetExceeded, EffectFailed, ModelFailed, UsageError
from llm_do_temporal.messages.sizes import MAX_ANSWER_BYTES, MAX_CALL_BYTES, MAX_RUN_ID_CHARS
from llm_do_temporal.storage import external_storage
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from llm_do_temporal.workflows.runtime import children
from tests.support.runs.delegation import APPROVE_ALL, generic_delegation
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"filesystem": {}}


class Sender(Model):
    """Calls `tool` once with exactly these arguments, then stops; `heard` is what it was told of it."""

    def __init__(self, tool: str, args: Any) -> None:
        super().__init__()
        self._call = ToolCallPart(tool, args, tool_call_id="call_1")
        self.heard = ""

    @property
    def model_name(self) -> str:
        return "sender"

    @property
    def system(self) -> str:
        return "test"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[self._call])
        self.heard = str(messages[-1])
        return ModelResponse(parts=[TextPart("Understood.")])


STRANGE: list[tuple[str, Any, str]] = [
    # a tool that is not there
    ("rm_rf", {}, "Unknown tool name: 'rm_rf'"),
    # arguments that are no object, or no JSON
    ("write_file", '["/a.txt", "hi"]', "Input should be an object"),
    ("write_file", '"/a.txt"', "Input should be an object"),
    ("write_file", "{'path': '/a.txt'", "Invalid JSON"),
    ("write_file", "", "'path' is a required property"),
    # the wrong ones
    ("write_file", {"path": "/a.txt"}, "'content' is a required property"),
    ("write_file", {"path": 1, "content": "hi"}, "path: 1 is not of type 'string'"),
    ("write_file", {"path": "/a.txt", "content": "hi", "mode": "x"}, "Additional properties are not allowed"),
    # names that the loop itself uses
    ("write_file", {"context": 1, "path": "/a.txt", "content": "hi"}, "Additional properties are not allowed"),
    ("write_file", {"self": 1, "tool": 2, "args": 3}, "Additional properties are not allowed"),
    # half characters, as JSON text and as a value
    ("write_file", '{"path": "/half.txt", "content": "\\ud800"}', "Wrote /half.txt"),
    ("write_file", {"path": "/a.txt", "content": "\ud800"}, "Wrote /a.txt"),
    ("read_file", {"path": "/\ud800"}, "does not exist"),
    # numbers and depth that Python itself refuses
    ("read_file", '{"path": "/a.txt", "offset": ' + "9" * 5000 + "}", ""),
    ("worker_call", '{"worker_name": "x", "input_data": ' + '{"a":' * 150 + "1" + "}" * 150 + "}", "no worker 'x'"),
    ("worker_call", '{"worker_name": "x", "input_data": ' + '{"a":' * 900 + "1" + "}" * 900 + "}", "recursion"),
    # NUL and other names that no file has
    ("read_file", {"path": "/a\0b"}, "NUL"),
    ("read_file", {"path": "x" * 5000}, "too long"),
    ("read_file", {"path": "/missing.txt", "offset": 10**18}, "does not exist"),
    ("list_files", {"pattern": "[" * 300}, ""),
]


async def test_strange_calls_are_answered_and_their_runs_go_on(place: Place) -> None:
    senders = [Sender(tool, args) for tool, args, _ in STRANGE]
    for number, sender in enumerate(senders):
        place.worker(f"main-{number}", sender, toolsets={**FILES, **generic_delegation("*")})
    results = await asyncio.gather(*(place.run(f"main-{number}", mode=APPROVE_ALL) for number in range(len(senders))))
    assert {result.output for result in results} == {"Understood."}
    for sender, (tool, args, expected) in zip(senders, STRANGE, strict=True):
        assert expected in sender.heard, (tool, str(args)[:100])


async def test_arguments_too_large_for_a_history_are_refused_with_the_limit(place: Place) -> None:
    huge = call("write_file", path="/a.txt", content="x" * 3_000_000)
    main = scripted(huge, call("write_file", path="/a.txt", content="x" * 200_000), "Written.")
    place.worker("main", main, toolsets=FILES)
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Written."
    assert f"at most {MAX_CALL_BYTES} are accepted" in str(main.requests[1].messages[-1])
    assert (place.folder / "a.txt").stat().st_size == 200_000


@pytest.mark.thorough
async def test_many_large_calls_in_one_turn_are_as_good_as_one(place: Place) -> None:
    writes = [call("write_file", path=f"/{number}.txt", content="x" * 300_000) for number in range(8)]
    main = scripted(writes, "Too much.")
    place.worker("main", main, toolsets=FILES)
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Too much."
    assert sorted(path.name for path in place.folder.glob("*.txt")) == ["0.txt", "1.txt", "2.txt"]


async def test_an_answer_too_large_for_a_history_fails_the_run_at_once(place: Place) -> None:
    main = scripted("x" * (MAX_ANSWER_BYTES + 1))
    place.worker("main", main)
    with pytest.raises(ModelFailed, match=f"at most {MAX_ANSWER_BYTES} can be kept"):
        await place.run("main")
    assert len(main.requests) == 1


async def test_a_turn_too_large_to_send_fails_the_run_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "MAX_VALUE_BYTES", 1_900_000)
    place.write("long.txt", "x" * 200_000)
    read = [call("read_file", path="/long.txt", max_chars=200_000) for _ in range(5)]
    place.worker("main", scripted(read, read * 2, "Never."), toolsets=FILES)
    with pytest.raises(BudgetExceeded, match="what is new in the conversation has") as ended:
        await place.run("main")
    assert "smaller parts" in str(ended.value.next_step)


async def test_a_model_that_never_gets_the_arguments_right_is_given_up_after_twenty_answers(place: Place) -> None:
    main = scripted(*[call("read_file", file="/a.txt")] * 20, "Never.")
    place.worker("main", main, toolsets=FILES)
    with pytest.raises(ModelFailed, match="the calls of the model's last 20 answers were all wrong"):
        await place.run("main")
    assert len(main.requests) == 20


async def test_a_result_too_large_to_be_kept_fails_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(external_storage, "_MAX_STORED_BYTES", 3_000_000)
    place.write("long.md", "語" * 340_000)
    place.worker("main", scripted("Never."), "{{ file('long.md') }}" * 3)
    with pytest.raises(EffectFailed, match=r"its result is too large to be kept: it has 30\d+ bytes"):
        await place.run("main")


@pytest.mark.thorough
async def test_a_child_that_cannot_be_started_is_a_result_for_its_caller(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(children, "MAX_VALUE_BYTES", 1_900_000)
    place.write("long.md", "x" * 1_000_000)
    schema = {"type": "object", "description": "x" * 950_000}
    main = scripted(call("worker_call", worker_name="large", input_data="go"), "Without it.")
    place.worker("large", scripted("Never."), "{{ file('long.md') }}", output_schema=schema)
    place.worker("main", main, toolsets=generic_delegation("large"))
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Without it."
    assert "at most 1900000 fit" in main.requests[1].results("worker_call")[0].text


async def test_a_run_id_that_no_database_takes_is_refused(place: Place) -> None:
    place.worker("main", scripted("Done."))
    with pytest.raises(UsageError, match=f"has {MAX_RUN_ID_CHARS + 1} characters; it may have {MAX_RUN_ID_CHARS}"):
        await place.start("main", run="r" * (MAX_RUN_ID_CHARS + 1))


async def test_a_tree_too_deep_for_its_names_stops_growing(place: Place) -> None:
    name = "a" + "b" * 60
    place.workshop(max_depth=100)
    place.worker(
        name, scripted(call("worker_call", worker_name=name, input_data="go"), "Up."), toolsets=generic_delegation("*")
    )
    run = await place.start(name, run="r" * MAX_RUN_ID_CHARS, mode=APPROVE_ALL)
    assert (await place.client.result(run)).output == "Up."
    assert len((await place.client.view(run)).nodes) == 2


NO_STARTS: list[Any] = [None, "greeter", 7, [], {}, {"worker": "main", "promt": "hi"}, {"worker": ["main"]}]
NO_BATCHES: list[Any] = [{"items": []}, {"items": [{"name": "a"}], "concurrency": 0}, {"things": []}]


async def test_a_start_that_makes_no_sense_fails_the_run_and_says_why(place: Place) -> None:
    place.worker("main", scripted("Done."))
    for payload in NO_STARTS:
        with pytest.raises(UsageError, match="malformed start: "):
            await place.client.result(await place.start_raw(payload))
    for batch in NO_BATCHES:
        with pytest.raises(UsageError, match="malformed start: batch"):
            await place.client.result(await place.start_raw({"worker": "main", "batch": batch}))
