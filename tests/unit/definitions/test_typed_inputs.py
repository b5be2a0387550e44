"""Typed input: the class that `schema_in_ref` names, and the prompt that it makes."""

from __future__ import annotations

import pytest

from llm_do_temporal.definitions.registry.registry import build_input
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.activities import BuiltInput
from tests.support.workshops.workshop_folder import WorkshopFolder

HEAD = """\
from pathlib import PurePosixPath
from pydantic import BaseModel, field_validator
from llm_do_temporal.args import AttachmentPath, WorkerArgs
"""


def judge(workshop: WorkshopFolder, body: str, **keys: str) -> None:
    workshop.write("workers/schemas.py", HEAD + body)
    front = "".join(f"{key}: {value}\n" for key, value in keys.items())
    workshop.write("workers/judge.worker", f"schema_in_ref: schemas.py:Given\n{front}---\nJudge.\n")


def built(workshop: WorkshopFolder, values: object) -> BuiltInput:
    return build_input("schemas.py:Given", values, workshop.registry().place_of("judge"))


def test_the_fields_are_pinned_and_become_the_callers_tool(workshop: WorkshopFolder) -> None:
    judge(workshop, "class Given(WorkerArgs):\n    deck: str\n    strict: bool = True\n")
    workshop.write("workers/main.worker", "toolsets: {delegation: {judge: {}}}\n---\nGo.\n")
    worker, main = workshop.load("judge"), workshop.load("main")
    assert worker.input_schema is not None
    assert list(worker.input_schema["properties"]) == ["deck", "strict"]
    assert main.delegation is not None
    assert main.delegation.tools[0].input_schema == worker.input_schema


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("class Given(WorkerArgs):\n    attachments: list[str]\n", "has a field 'attachments'"),
        ("class Given:\n    pass\n", "is not a pydantic BaseModel"),
        ("class Other(WorkerArgs):\n    a: int\n", "the class 'Given' of 'schemas.py' does not exist"),
        ("1 / 0\n", "ZeroDivisionError: division by zero (loading schemas.py:Given of worker 'judge')"),
        ("class Given(BaseModel):\n    inner: 'Given | None' = None\n", "has no fields of its own"),
    ],
)
def test_a_class_that_cannot_describe_input_is_a_mistake_of_the_author(
    workshop: WorkshopFolder, body: str, words: str
) -> None:
    judge(workshop, body)
    with pytest.raises(DefinitionError) as caught:
        workshop.load("judge")
    assert words in str(caught.value)
    assert any(words in said for said in workshop.said())


def test_values_are_checked_with_the_classs_own_validators(workshop: WorkshopFolder) -> None:
    judge(
        workshop,
        "class Given(WorkerArgs):\n    deck: str\n    pages: int = 3\n"
        "    @field_validator('deck')\n    def short(cls, deck):\n"
        "        if len(deck) > 5: raise ValueError('too long')\n        return deck\n",
    )
    assert built(workshop, {"deck": "kelp"}).values == {"deck": "kelp", "pages": 3}
    for values, words in [
        ({"deck": "kelpworks"}, "deck: Value error, too long"),
        ({}, "deck: Field required"),
        ({"deck": "a", "extra": 1}, "extra: Extra inputs are not permitted"),
        ("text", "Input should be an object"),
        (None, "Input should be an object"),
    ]:
        with pytest.raises(EffectFailed, match="the input of worker 'judge' is not valid") as caught:
            built(workshop, values)
        assert words in str(caught.value)
        assert caught.value.next_step == "Its fields are deck, pages; required: deck."


def test_a_class_may_make_the_prompt_and_attach_files(workshop: WorkshopFolder) -> None:
    judge(
        workshop,
        "class Given(WorkerArgs):\n    deck: str\n    def input_parts(self):\n"
        "        return ['Judge', AttachmentPath(self.deck), 'it.', PurePosixPath('/rubric.md')]\n",
    )
    made = built(workshop, {"deck": "input/a.pdf"})
    assert (made.prompt, made.attachments) == ("Judge\n\nit.", ("input/a.pdf", "/rubric.md"))


def test_a_file_that_is_not_named_may_have_a_default(workshop: WorkshopFolder) -> None:
    judge(
        workshop,
        "class Given(WorkerArgs):\n    deck: str = 'input/deck.txt'\n    def input_parts(self):\n"
        "        return ['Judge it.', AttachmentPath(self.deck)]\n",
    )
    assert built(workshop, {}).attachments == ("input/deck.txt",)
    assert built(workshop, {"deck": "input/other.txt"}).attachments == ("input/other.txt",)


def test_a_class_may_make_the_prompt_as_one_text(workshop: WorkshopFolder) -> None:
    judge(workshop, "class Given(WorkerArgs):\n    a: int\n    def input_parts(self):\n        return f'a={self.a}'\n")
    assert built(workshop, {"a": 1}).prompt == "a=1"


@pytest.mark.parametrize(
    ("code", "words"),
    [("return [1]", "must return a text, or a list"), ("return self.b.c", "AttributeError"), ("1/0", "ZeroDivision")],
)
def test_a_prompt_that_cannot_be_made_is_a_mistake_of_the_author(
    workshop: WorkshopFolder, code: str, words: str
) -> None:
    judge(workshop, f"class Given(WorkerArgs):\n    a: int\n    def input_parts(self):\n        {code}\n")
    with pytest.raises(DefinitionError, match=words):
        built(workshop, {"a": 1})
