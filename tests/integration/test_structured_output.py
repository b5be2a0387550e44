"""Workers with a schema for their result, and workers without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.errors import DefinitionError, ModelFailed
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, tool_results
from tests.support.runs.place import Place

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Deck verdict!",
    "properties": {
        "verdict": {"enum": ["go", "pass"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["verdict", "score"],
    "additionalProperties": False,
}
GOOD = {"verdict": "go", "score": 4}


async def test_a_result_that_fits_is_the_output_as_an_object(place: Place) -> None:
    main = scripted(GOOD)
    place.worker("main", main, output_schema=SCHEMA)
    assert (await place.run("main")).output == GOOD
    assert main.requests[0].output_schema is not None
    assert main.requests[0].output_schema["properties"] == SCHEMA["properties"]


async def test_the_schema_may_be_a_class_of_the_workshop(place: Place) -> None:
    place.write(
        "workers/schemas.py",
        "from pydantic import BaseModel, Field\n\n"
        "class Score(BaseModel):\n    value: int = Field(ge=1, le=5)\n\n"
        "class Verdict(BaseModel):\n    verdict: str\n    scores: list[Score]\n",
    )
    main = scripted({"verdict": "go", "scores": [{"value": 9}]}, {"verdict": "go", "scores": [{"value": 5}]})
    place.worker("main", main, output_schema_ref="schemas.py:Verdict")
    assert (await place.run("main")).output == {"verdict": "go", "scores": [{"value": 5}]}
    assert "scores.0.value: 9 is greater than the maximum of 5" in str(main.requests[1].messages[-1])


async def test_validators_of_the_class_run_and_what_they_make_is_the_result(place: Place) -> None:
    place.write(
        "schemas.py",
        "from pydantic import BaseModel, field_validator, model_validator\n\n"
        "class Range(BaseModel):\n    name: str\n    low: int\n    high: int\n\n"
        "    @field_validator('name')\n    @classmethod\n    def _strip(cls, value):\n        return value.strip()\n\n"
        "    @model_validator(mode='after')\n    def _ordered(self):\n        if self.low > self.high:\n"
        "            raise ValueError('low is above high')\n        return self\n",
    )
    good = {"name": " ada ", "low": 1, "high": 2}
    main, judge = scripted({**good, "low": 3}, good), scripted({**good, "low": 3}, good)
    place.worker("main", main, output_schema_ref="schemas.py:Range")
    # also where the class is that of a template
    text = f"system: Judge.\nmodel: {place.script('judge', judge)}\noutput_schema_ref: schemas.py:Range\n"
    place.write("templates/judge.yaml", text)
    for worker, model in (("main", main), ("templates/judge.yaml", judge)):
        assert (await place.run(worker)).output == {"name": "ada", "low": 1, "high": 2}
        assert "low is above high" in str(model.requests[1].messages[-1])


MISFITS: list[tuple[Any, str]] = [
    # a value out of range, a missing key, a key nobody asked for
    ({"verdict": "go", "score": 9}, "score: 9 is greater than the maximum of 5"),
    ({"verdict": "go"}, "'score' is a required property"),
    ({**GOOD, "why": "because"}, "Additional properties are not allowed ('why' was unexpected)"),
    # text, where an object was wanted
    ("I would say go.", ""),
]


async def test_a_result_that_does_not_fit_is_asked_again_with_the_problem_named(place: Place) -> None:
    for answer, problem in MISFITS:
        main = scripted(answer, GOOD)
        place.worker("main", main, output_schema=SCHEMA)
        assert (await place.run("main")).output == GOOD
        assert problem in str(main.requests[1].messages[-1])


async def test_a_model_that_never_fits_the_schema_fails_the_run_after_three_retries(place: Place) -> None:
    bad = {"verdict": "maybe", "score": 3}
    main = scripted(bad, bad, bad, bad, GOOD)
    place.worker("main", main, output_schema=SCHEMA)
    with pytest.raises(ModelFailed, match="the model's answers could not be used"):
        await place.run("main")
    assert len(main.requests) == 4


async def test_a_worker_may_use_tools_before_it_gives_its_result(place: Place) -> None:
    main = scripted(call("list_files"), GOOD)
    place.worker("main", main, output_schema=SCHEMA, toolsets={"filesystem": {}})
    assert (await place.run("main")).output == GOOD
    assert main.requests[1].results("list_files")[0].ok


async def test_a_structured_result_reaches_the_callers_model_as_json(place: Place) -> None:
    main = scripted(call("judge", input="go"), "Done.")
    place.worker("judge", scripted(GOOD), output_schema=SCHEMA)
    place.worker("main", main, toolsets=delegation_to("judge"))
    await place.run("main", mode=APPROVE_ALL)
    assert json.loads(tool_results(main, "judge")[0]) == GOOD


async def test_a_schema_that_cannot_be_applied_starts_no_run_and_is_named(place: Place) -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "(unclosed"}}}
    place.worker("main", scripted({"code": "x"}), output_schema=schema)
    with pytest.raises(DefinitionError, match=r"properties\.code\.pattern.*cannot be used"):
        await place.run("main")
