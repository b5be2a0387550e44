"""The schema of a result: inline or from a class, checked when the worker is loaded."""

from __future__ import annotations

import pytest

from llm_do_temporal.definitions.registry.registry import check_output
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.base import Json
from tests.support.workshops.workshop_folder import WorkshopFolder

EVALUATION = """\
from __future__ import annotations
from pydantic import BaseModel, RootModel

class Note(BaseModel):
    text: str

class Evaluation(BaseModel):
    score: int
    notes: list[Note]

class Node(BaseModel):
    children: list[Node]

class Names(RootModel[list[str]]):
    pass

class Plain:
    pass
"""


def load_schema(workshop: WorkshopFolder, reference: str) -> dict[str, Json]:
    workshop.write("workers/judge/worker.worker", f"description: d\noutput_schema_ref: {reference}\n---\nJudge.")
    schema = workshop.load("judge").output_schema
    assert schema is not None
    return schema


@pytest.mark.parametrize("path", ["schemas.py", "workers/judge/schemas.py"])
def test_a_class_is_found_in_the_workshop_and_in_the_workers_folder(workshop: WorkshopFolder, path: str) -> None:
    workshop.write(path, EVALUATION)
    schema = load_schema(workshop, "schemas.py:Evaluation")
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"score", "notes"}


def test_a_class_is_found_in_a_module_of_the_workshop(workshop: WorkshopFolder) -> None:
    workshop.write("judge_package/results.py", EVALUATION)
    assert load_schema(workshop, "judge_package.results.Evaluation")["title"] == "Evaluation"


def test_a_schema_file_may_import_its_neighbours(workshop: WorkshopFolder) -> None:
    workshop.write("neighbour_of_schemas.py", EVALUATION)
    workshop.write("schemas.py", "from neighbour_of_schemas import Evaluation\n")
    assert load_schema(workshop, "schemas.py:Evaluation")["title"] == "Evaluation"


def test_an_installed_class_can_be_used(workshop: WorkshopFolder) -> None:
    assert load_schema(workshop, "llm_do_temporal.messages.budget.Usage")["title"] == "Usage"


def test_an_edited_file_is_read_anew(workshop: WorkshopFolder) -> None:
    workshop.write("schemas.py", EVALUATION)
    load_schema(workshop, "schemas.py:Evaluation")
    workshop.write("schemas.py", EVALUATION.replace("score", "grade"))
    assert "grade" in load_schema(workshop, "schemas.py:Evaluation")["properties"]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("gone.py:Evaluation", "there is no file 'gone.py' in 'workers/judge/' or the workshop's folder"),
        ("schemas.py:Gone", "the class 'Gone' of 'schemas.py' does not exist; of models it has Evaluation, Names"),
        ("schemas.py:Plain", "the class 'Plain' of 'schemas.py' is not a pydantic BaseModel"),
        ("schemas.py:Names", "the type of a result must be 'object'"),  # a list
        ("schemas.py:Node", "'Node' refers to itself"),  # models are given schemas without references
        ("schemas.txt:Evaluation", "'schemas.txt' is not a Python file"),
        ("../schemas.py:Evaluation", "'../schemas.py' is not a path inside the workshop"),
        ("out/schemas.py:Evaluation", "'out/schemas.py' is a link that leads out of the workshop"),
        ("no_such_module.Evaluation", "there is no module 'no_such_module'"),
        ("Evaluation", "'Evaluation' names no class"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named_in_the_worker_file(
    workshop: WorkshopFolder, reference: str, words: str
) -> None:
    workshop.write("schemas.py", EVALUATION)
    workshop.write("../schemas.py", EVALUATION)
    (workshop.root / "out").symlink_to(workshop.root.parent)
    with pytest.raises(DefinitionError) as caught:
        load_schema(workshop, reference)
    assert words in caught.value.problem
    assert (caught.value.file, caught.value.line) == ("workers/judge/worker.worker", 2)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("x = 1\ny = x / 0\n", 2, "ZeroDivisionError: division by zero"),  # it raises
        ("x = 1\ndef broken(:\n", 2, "SyntaxError: "),  # it is not Python
        ("import no_such_thing\n", 1, "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("import sys\nsys.exit('bye')\n", 2, "SystemExit: bye"),  # it would take the service with it
        ("open(__file__ + '.gone')\n", 1, "No such file or directory: 'schemas.py.gone'"),  # no host path
    ],
)
def test_what_goes_wrong_in_the_authors_python_is_named_there(
    workshop: WorkshopFolder, source: str, line: int, words: str
) -> None:
    workshop.write("schemas.py", source)
    with pytest.raises(DefinitionError) as caught:
        load_schema(workshop, "schemas.py:Evaluation")
    assert words in caught.value.problem
    assert "worker 'judge'" in caught.value.problem
    assert (caught.value.file, caught.value.line) == ("schemas.py", line)
    assert str(workshop.root) not in str(caught.value)


def test_a_module_that_raises_is_named_too(workshop: WorkshopFolder) -> None:
    workshop.write("module_that_raises.py", "\nraise ValueError('no')\n")
    with pytest.raises(DefinitionError, match=r"^module_that_raises\.py:2: ValueError: no"):
        load_schema(workshop, "module_that_raises.Evaluation")


@pytest.mark.parametrize(
    ("schema", "line", "words"),
    [
        ("{type: object, properties: {a: {type: strng}}}", 1, "at 'properties.a.type': 'strng' is not one of"),
        ("\n  type: object\n  required: a", 3, "at 'required': 'a' is not of type 'array'"),
        ("{properties: {}}", 1, "the type of a result must be 'object'"),  # no type at all
        (
            "{type: object, properties: {a: {$ref: 'http://x/y'}}}",
            1,
            "'$ref: http://x/y' leads nowhere",
        ),  # never fetched
        ("{type: object, properties: {a: {$ref: '#/$defs/B'}}}", 1, "'$ref: #/$defs/B' leads nowhere"),
        (
            "\n  type: object\n  $defs:\n    B: {items: {$ref: '#/$defs/C'}}\n    C: {not: {$ref: '#/$defs/B'}}",
            4,
            "'B' refers to itself",
        ),
    ],
)
def test_an_inline_schema_is_checked(workshop: WorkshopFolder, schema: str, line: int, words: str) -> None:
    workshop.write("workers/judge.worker", f"output_schema: {schema}\n---\nJudge.")
    with pytest.raises(DefinitionError) as caught:
        workshop.load("judge")
    assert words in caught.value.problem
    assert caught.value.line == line


def test_a_schema_may_share_definitions(workshop: WorkshopFolder) -> None:
    shared = "{$ref: '#/$defs/B'}"
    schema = f"{{type: object, properties: {{a: {shared}, b: {shared}}}, $defs: {{B: {{type: string}}}}}}"
    workshop.write("workers/judge.worker", f"output_schema: {schema}\n---\nJudge.")
    assert workshop.load("judge").output_schema is not None


CHECKING = """\
from typing import Annotated
from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

def even(value: int) -> int:
    if value % 2:
        raise ValueError("it is odd")
    return value

class Plain(BaseModel):
    score: int = Field(ge=1)

class Inner(BaseModel):
    n: Annotated[int, AfterValidator(even)]

class Outer(BaseModel):
    inner: list[Inner]

class Field_(BaseModel):
    name: str = Field(alias="Name")

    @field_validator("name")
    @classmethod
    def _strip(cls, value: str) -> str:
        return value.strip()

class Whole(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

class Breaks(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _break(cls, value: int) -> int:
        return {}[value]
"""


@pytest.mark.parametrize(
    ("name", "pinned"),
    [("Plain", False), ("Inner", True), ("Outer", True), ("Field_", True), ("Whole", True)],
)
def test_a_class_with_validators_is_pinned_with_its_schema(workshop: WorkshopFolder, name: str, pinned: bool) -> None:
    workshop.write("schemas.py", CHECKING)
    workshop.write("workers/judge.worker", f"output_schema_ref: schemas.py:{name}\n---\nJudge.")
    assert workshop.load("judge").output_ref == (f"schemas.py:{name}" if pinned else None)


@pytest.mark.parametrize(
    ("name", "value", "problems", "made"),
    [
        ("Outer", {"inner": [{"n": 2}]}, [], {"inner": [{"n": 2}]}),
        ("Outer", {"inner": [{"n": 2}, {"n": 3}]}, ["inner.1.n: Value error, it is odd"], None),
        ("Whole", {"low": 2, "high": 1}, ["Value error, low is above high"], None),
        # what the class makes of a value, under the names of the schema
        ("Field_", {"Name": " x "}, [], {"Name": "x"}),
    ],
)
def test_validators_say_what_is_wrong_or_what_the_result_is(
    workshop: WorkshopFolder, name: str, value: Json, problems: list[str], made: Json
) -> None:
    workshop.write("schemas.py", CHECKING)
    found = check_output(f"schemas.py:{name}", value, folder=workshop.root, root=workshop.root)
    assert (list(found.problems), found.value) == (problems, made)


def test_a_validator_that_breaks_is_a_mistake_of_the_authors(workshop: WorkshopFolder) -> None:
    workshop.write("schemas.py", CHECKING)
    with pytest.raises(DefinitionError, match=r"schemas\.py:42: KeyError"):
        check_output("schemas.py:Breaks", {"n": 1}, folder=workshop.root, root=workshop.root)


def inline(workshop: WorkshopFolder, answer: str) -> dict[str, Json]:
    """Load a worker whose result has one property with this schema."""
    workshop.write(
        "workers/judge.worker",
        f"output_schema:\n  type: object\n  properties:\n    answer: {answer}\n---\nJudge.",
    )
    schema = workshop.load("judge").output_schema
    assert schema is not None
    return schema["properties"]["answer"]


@pytest.mark.parametrize(
    ("answer", "choices"),
    [
        ("{type: string, enum: [yes, no, maybe]}", ["yes", "no", "maybe"]),
        ("{enum: [on, OFF]}", ["on", "OFF"]),
        ("{type: string, enum: [12:30, 18:00]}", ["12:30", "18:00"]),
        ("{enum: [01234, 1_000, 0b11, -010, 00.5]}", ["01234", "1_000", "0b11", "-010", "00.5"]),
        ("{enum: [0, -7, 0.5, 1e3, 0x1F]}", [0, -7, 0.5, "1e3", 31]),
        ("{type: boolean, enum: [true, false]}", [True, False]),
        ("{type: [string, boolean], enum: ['a', true]}", ["a", True]),
        ("{type: string, enum: [a, null]}", ["a", None]),
        ("{type: integer, enum: [1, 2.0]}", [1, 2.0]),
    ],
)
def test_choices_are_what_was_meant(workshop: WorkshopFolder, answer: str, choices: list[Json]) -> None:
    assert inline(workshop, answer)["enum"] == choices


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("{type: string, enum: [true, false]}", "'enum' has true, which is not of type string"),
        ("{type: string, enum: [1, 2]}", "'enum' has 1, which is not of type string"),
        ("{type: integer, enum: ['1']}", "'enum' has \"1\", which is not of type integer"),
        ("{type: integer, enum: [1.5]}", "'enum' has 1.5, which is not of type integer"),
        ("{type: [string, 'null'], const: 7}", "'const' has 7, which is not of type string or null"),
        ("{type: array, items: {type: string, enum: [true]}}", "'enum' has true, which is not of type string"),
        ("{anyOf: [{type: string, enum: [[a]]}]}", "is not of type string"),
    ],
)
def test_a_choice_that_its_own_type_excludes_is_an_error(workshop: WorkshopFolder, answer: str, words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        inline(workshop, answer)
    assert words in str(refused.value)
    assert "workers/judge.worker:4" in str(refused.value)


def test_properties_may_be_called_like_keywords(workshop: WorkshopFolder) -> None:
    inner = "{type: object, properties: {enum: {type: string}, type: {type: string, enum: [a]}, const: {type: string}}}"
    assert set(inline(workshop, inner)["properties"]) == {"enum", "type", "const"}


@pytest.mark.parametrize("value", ["yes", "no", "on", "off", "'true'"])
def test_a_word_where_true_or_false_is_due_is_refused(workshop: WorkshopFolder, value: str) -> None:
    workshop.write("workers/judge.worker", f"locked: {value}\n---\nJudge.")
    with pytest.raises(DefinitionError, match="'locked' should be true or false, not"):
        workshop.load("judge")
