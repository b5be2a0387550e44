"""Workers with `schema_in_ref`: their tool has the fields, and their class may make the prompt."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart

from llm_do_temporal.errors import UsageError
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import tool_results
from tests.support.runs.place import Place

ALL = "approve_all"
HEAD = "from llm_do_temporal.args import AttachmentPath, WorkerArgs\nfrom pydantic import BaseModel, field_validator\n"
FIELDS = """\
class Page(BaseModel):
    number: int

class Given(WorkerArgs):
    deck: str
    pages: list[Page] = []

    @field_validator("deck")
    def known(cls, deck: str) -> str:
        if deck == "unknown":
            raise ValueError("there is no such deck")
        return deck
"""
PARTS = """\

    def input_parts(self):
        return [f"Judge {self.deck}.", AttachmentPath(self.deck)]
"""


def judge(place: Place, model: ScriptedModel, body: str = FIELDS, **keys: Any) -> None:
    place.write("workers/schemas.py", HEAD + body)
    place.worker("judge", model, schema_in_ref="schemas.py:Given", **keys)


async def test_the_tool_has_the_fields_of_the_class_and_attachments(place: Place) -> None:
    judge(place, scripted())
    main = scripted("Nothing to do.")
    place.worker("main", main, toolsets={"delegation": {"judge": {}}})
    await place.run("main")
    schema = main.requests[0].tools["judge"].parameters_json_schema
    assert set(schema["properties"]) == {"deck", "pages", "attachments"}
    assert schema["required"] == ["deck"]
    assert schema["additionalProperties"] is False


async def test_without_input_parts_the_fields_are_told_as_json(place: Place) -> None:
    child = scripted("Judged.")
    judge(place, child, attachment_policy={"max_attachments": 0})
    main = scripted(call("judge", deck="kelp", pages=[{"number": 2}]), "Done.")
    place.worker("main", main, toolsets={"delegation": {"judge": {}}})
    await place.run("main", mode=ALL)
    assert '"deck": "kelp"' in child.requests[0].prompt
    assert '"number": 2' in child.requests[0].prompt
    assert "attachments" not in main.requests[0].tools["judge"].parameters_json_schema["properties"]


async def test_input_parts_make_the_prompt_and_attach_the_callers_files(place: Place) -> None:
    child = scripted("Judged.")
    judge(place, child, FIELDS + PARTS)
    place.write("kelp.txt", "We sell kelp.")
    main = scripted([call("judge", deck="kelp.txt"), call("judge", deck="../secret.txt")], "Done.")
    place.worker("main", main, toolsets={"delegation": {"judge": {}}})
    await place.run("main", mode=ALL)
    assert tool_results(main, "judge")[0] == "Judged."
    assert "contains '..'" in tool_results(main, "judge")[1]
    assert child.requests[0].prompt.startswith("Judge kelp.txt.")
    assert "Attached file: /kelp.txt" in child.requests[0].prompt


@pytest.mark.parametrize("tool", ["judge", "worker_call"])
async def test_values_that_do_not_fit_are_told_and_nobody_is_asked(place: Place, tool: str) -> None:
    judge(place, scripted())
    bad = (
        call("judge", deck="unknown")
        if tool == "judge"
        else call("worker_call", worker_name="judge", input_data={"deck": "unknown"})
    )
    main = scripted(bad, "Alone then.")
    place.worker("main", main, toolsets={"delegation": {"judge": {}, "allow_workers": ["judge"]}})
    assert (await place.run("main")).output == "Alone then."
    assert (
        "the input of worker 'judge' is not valid: deck: Value error, there is no such deck"
        in tool_results(main, tool)[0]
    )


async def test_worker_call_takes_the_fields_as_input_data(place: Place) -> None:
    child = scripted("Judged.")
    judge(place, child, FIELDS + PARTS)
    place.write("kelp.txt", "We sell kelp.")
    main = scripted(
        [
            call("worker_call", worker_name="judge", input_data={"deck": "kelp.txt"}),
            call("worker_call", worker_name="judge", input_data="kelp.txt"),
        ],
        "Done.",
    )
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["judge"]}})
    await place.run("main", mode=ALL)
    good, bad = tool_results(main, "worker_call")
    assert good == "Judged."
    assert "Its fields are deck, pages; required: deck." in bad


async def test_the_input_of_a_start_is_checked_and_makes_the_prompt(place: Place) -> None:
    entry = scripted("Judged.")
    judge(place, entry, FIELDS + PARTS)
    place.write("kelp.txt", "We sell kelp.")
    await place.run("judge", "Be quick.", input={"deck": "kelp.txt"})
    assert entry.requests[0].prompt.startswith("Be quick.\n\nJudge kelp.txt.")
    assert "Attached file: /kelp.txt" in entry.requests[0].prompt


@pytest.mark.parametrize(("given", "words"), [({}, "deck: Field required"), ({"deck": "unknown"}, "no such deck")])
async def test_a_start_whose_input_does_not_fit_fails_at_once(place: Place, given: dict[str, Any], words: str) -> None:
    judge(place, scripted())
    with pytest.raises(UsageError, match=words):
        await place.run("judge", input=given)


async def test_a_worker_may_hand_parts_of_its_input_to_itself(place: Place) -> None:
    place.workshop(max_depth=3, approvals={"rules": {"worker.call": "pre_approved"}})
    fields = "class Given(WorkerArgs):\n    task: str\n    levels: int = 2\n\n"
    place.write("workers/schemas.py", HEAD + fields + "    def input_parts(self):\n        return repr(self)\n")
    play = scripted(decompose, lambda messages: " ".join(answers(messages)))
    place.worker(
        "task_decomposer", play, schema_in_ref="schemas.py:Given", toolsets={"delegation": {"task_decomposer": {}}}
    )
    run = await place.start("task_decomposer", "", input={"task": "x"})
    assert (await place.client.result(run)).output == "Done: xaa Done: xab Done: xba Done: xbb"
    assert [node.depth for node in (await place.client.view(run)).ordered] == [0, 1, 2, 2, 1, 2, 2]


def decompose(messages: list[ModelMessage]) -> Any:
    """Split a task in two, or do it where it may not be split any more."""
    (told,) = [str(part.content) for part in messages[0].parts if isinstance(part, UserPromptPart)]
    task, levels = told.removeprefix("Given(task='").removesuffix(")").split("', levels=")
    if levels == "0":
        return f"Done: {task}"
    return [call("task_decomposer", task=task + half, levels=int(levels) - 1) for half in "ab"]


def answers(messages: list[ModelMessage]) -> list[str]:
    return [part.model_response_str() for part in messages[-1].parts if isinstance(part, ToolReturnPart)]


async def test_a_field_called_attachments_is_a_mistake_of_the_author(place: Place) -> None:
    judge(place, scripted(), "class Given(WorkerArgs):\n    attachments: list[str]\n")
    main = scripted("Nothing to do.")
    place.worker("main", main, toolsets={"delegation": {"judge": {}}})
    await place.run("main")
    assert "has a field 'attachments'" in (main.requests[0].tools["judge"].description or "")
