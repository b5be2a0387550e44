"""The shipped workshop through the real OpenAI client, against a server on this machine that can misbehave."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from typing import Any

import pytest

from llm_do_temporal.errors import LlmDoError, ModelFailed, ModelRefusal
from llm_do_temporal.testing import call, scripted
from tests.support.providers.answers import Answer, Drop, Failure, Garbage, Script, rate_limited, unauthorized
from tests.support.providers.pitch_decks import received_pdfs
from tests.support.providers.provider import FakeProvider, Text, fixed, pitch_decks, tool_call
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, tool_results
from tests.support.runs.parked import install_shipped_workshop
from tests.support.runs.place import Place

MODEL = "openai-chat:gpt-test"
ORCHESTRATOR_TURNS = 4


def failing_first(script: Script, *faults: Answer) -> Script:
    """The script, but the first requests of as many evaluators fail, each in its own way."""
    left = deque(faults)
    failed: set[str] = set()

    def answer(request: dict[str, Any], number: int) -> Answer:
        conversation = json.dumps(request["messages"])
        is_evaluator = any(tool["function"]["name"] == "final_result" for tool in request.get("tools", []))
        if left and is_evaluator and conversation not in failed:
            failed.add(conversation)
            return left.popleft()
        return script(request, number)

    return answer


async def test_every_deck_is_evaluated_by_a_model_that_got_exactly_its_bytes(place: Place, point_at: Any) -> None:
    decks = install_shipped_workshop(place)
    provider: FakeProvider = point_at(pitch_decks())
    result = await place.run("pitch_orchestrator", "evaluate every deck", mode=APPROVE_ALL, model=MODEL)
    digests = {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (place.folder / "files/pipeline").glob("*.pdf")
    }
    arrived = [received_pdfs(request.body) for request in provider.requests]
    assert {hashlib.sha256(pdf).hexdigest() for pdfs in arrived for pdf in pdfs} == digests
    written = {path.stem: path.read_text() for path in (place.folder / "files/evaluations").glob("*.md")}
    assert sorted(written) == decks
    assert all(sum(digest in text for digest in digests) == 1 for text in written.values())
    assert f"Evaluated {len(decks)} of {len(decks)} decks" in str(result.output)
    assert result.usage.requests == len(provider.requests) == ORCHESTRATOR_TURNS + len(decks)


async def test_what_passes_by_itself_is_tried_again_and_no_answered_turn_is_asked_twice(
    place: Place, point_at: Any
) -> None:
    decks = install_shipped_workshop(place)
    faults = (rate_limited(0.1), Failure(500), Failure(503), Drop(), Garbage())
    provider: FakeProvider = point_at(failing_first(pitch_decks(), *faults))
    result = await place.run("pitch_orchestrator", "evaluate every deck", mode=APPROVE_ALL, model=MODEL)
    assert f"Evaluated {len(decks)} of {len(decks)} decks" in str(result.output)
    assert len(provider.requests) == ORCHESTRATOR_TURNS + len(decks) + len(faults)
    assert result.usage.requests == ORCHESTRATOR_TURNS + len(decks)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (unauthorized(), f"model '{MODEL}' refused the key: Incorrect API key provided"),
        (Failure(403, "Not for you."), f"model '{MODEL}' refused the key: Not for you"),
        (Failure(400, "This model takes no PDF.", code="unsupported_file"), "refused the request: This model takes no"),
        (Failure(404, "The model `gpt-test` does not exist."), f"model '{MODEL}' is not known to its provider"),
    ],
)
async def test_what_no_second_try_can_mend_fails_the_run_at_once_and_says_why(
    place: Place, point_at: Any, fault: Answer, cause: str
) -> None:
    provider: FakeProvider = point_at(fixed(fault, Text("Never.")))
    place.worker("main", MODEL)
    with pytest.raises(ModelFailed, match=cause):
        await place.run("main")
    assert len(provider.requests) == 1


async def test_answers_that_make_no_sense_fail_the_run_after_three_tries(place: Place, point_at: Any) -> None:
    nonsense = Garbage(b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": null}')
    provider: FakeProvider = point_at(fixed(*[nonsense] * 6, Text("Never.")))
    place.worker("main", MODEL)
    with pytest.raises(ModelFailed, match="the model's answer could not be used"):
        await place.run("main")
    # Each try is streamed, and asked for as a whole at once.
    assert [bool(request.body.get("stream")) for request in provider.requests] == [True, False] * 3


async def test_a_callee_whose_model_refuses_is_a_result_for_its_caller(place: Place, point_at: Any) -> None:
    point_at(fixed(unauthorized()))
    main = scripted(call("remote", input="go"), "Without it.")
    place.worker("remote", MODEL)
    place.worker("main", main, toolsets=delegation_to("remote"))
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Without it."
    assert "Incorrect API key provided" in tool_results(main, "remote")[0]


NO_MODELS: list[tuple[str, type[LlmDoError], str]] = [
    ("nobody:gpt-test", ModelRefusal, "names the unknown provider 'nobody'"),
    ("nobody:gpt-test,nobody:other", ModelFailed, "no model is left: .*'nobody:gpt-test'.*; .*'nobody:other'"),
    ("gpt-test", ModelRefusal, "names no provider"),
    ("test:nobody-registered-this", ModelFailed, "nobody-registered-this"),
    ("offline:no-such-script", LlmDoError, "no-such-script"),
    ("offline:plays.py:pitch", ModelFailed, "'offline:plays.py:pitch' failed: there is no file 'plays.py'"),
    (":", ModelRefusal, "names the unknown provider ''"),
]


async def test_a_model_that_does_not_exist_fails_the_run_and_names_it(place: Place) -> None:
    for model, error, message in NO_MODELS:
        place.worker("main", model)
        with pytest.raises(error, match=message):
            await place.run("main")


async def test_tools_and_structured_output_work_through_the_real_client(place: Place, point_at: Any) -> None:
    schema = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
    provider: FakeProvider = point_at(
        fixed(
            tool_call("list_files", path="/notes"),
            tool_call("final_result", files="two"),
            tool_call("final_result", files=2),
        )
    )
    place.write("notes/a.md", "a")
    place.write("notes/b.md", "b")
    place.worker("main", MODEL, output_schema=schema, toolsets={"filesystem": {}})
    assert (await place.run("main", mode=APPROVE_ALL)).output == {"files": 2}
    assert "/notes/a.md" in json.dumps(provider.requests[1].body["messages"][-1])
    assert "is not of type 'integer'" in json.dumps(provider.requests[2].body["messages"][-1])
