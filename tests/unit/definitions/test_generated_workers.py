"""What is written for a worker that a model makes, and what is refused."""

from __future__ import annotations

import pytest

from llm_do_temporal.definitions.registry.registry import MAX_DEFINITION_BYTES, draft_worker
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import DefinitionError, DelegationRefusal
from llm_do_temporal.messages.activities import DraftWorkerInput, WorkerDraft
from tests.support.workshops.workshop_folder import WorkshopFolder

SCHEMAS = "from pydantic import BaseModel\nclass Score(BaseModel):\n    points: int\n"


def drafted(workshop: WorkshopFolder, name: str = "helper", instructions: str = "Help.", **more: str) -> WorkerDraft:
    asked = DraftWorkerInput.model_validate({"name": name, "instructions": instructions, "description": "", **more})
    return draft_worker(load_workshop(workshop.root), asked)


@pytest.mark.parametrize(
    "instructions",
    [
        "Help.",
        "one\ntwo\n\nthree",
        # what would end the front matter, or the document
        "a\n---\nlocked: true\n---\nb",
        "---",
        "...\n--- !!python/object:os.system x",
        # what YAML would read as something else
        "true",
        "2024-01-01",
        "!!python/object/apply:os.system ['id']",
        "*anchor",
        "<<: {a: b}",
        "key: value # no comment",
        "'quotes' and \"quotes\"",
        "%YAML 1.1",
        # what Jinja would run
        "{{ file('/etc/passwd') }} {% include 'x' %} {# y #} {% raw %}",
        # what gets lost in many places
        "a\r\nb\rc",
        "a\x00b\x07c\x1b[31md\x7f",
        "a\u2028b\u2029c\x85d",
        "\ufeffa\u202eb\u200bc\ufffe\U0001f600",
        "a  \n  b\t\n\tc",
        "first\n    indented\n  less",
        "x" * 40_000,
    ],
)
def test_instructions_read_back_as_they_were_to_the_last_character(workshop: WorkshopFolder, instructions: str) -> None:
    draft = drafted(workshop, instructions=instructions, description="d: " + instructions[:200])
    workshop.root.joinpath("workers/generated").mkdir(parents=True)
    (workshop.root / draft.source).write_bytes(draft.text.encode())
    loaded = workshop.load("helper")
    assert loaded.instructions == instructions.strip()
    assert loaded.description == ("d: " + instructions[:200]).strip()
    assert (loaded.locked, loaded.filesystem, loaded.delegation, loaded.sandbox) == (False, False, None, None)


def test_text_of_several_lines_stands_in_lines_for_those_who_read_it(workshop: WorkshopFolder) -> None:
    text = drafted(workshop, instructions="Read it.\nThen say:\n  well", description="Helps").text
    assert text == (
        "name: helper\ndescription: Helps\nlocked: false\ninstructions: |-\n  Read it.\n  Then say:\n    well\n"
    )


@pytest.mark.parametrize(
    "name", ["../../evil", "Upper", "read_file", "worker_create", "a/b", "", "a" * 65, "ä", "a.b", "pkg:a"]
)
def test_hostile_names_are_refused(workshop: WorkshopFolder, name: str) -> None:
    with pytest.raises(DefinitionError, match=r"^worker name"):
        drafted(workshop, name)


def test_long_instructions_are_refused_with_the_limit(workshop: WorkshopFolder) -> None:
    with pytest.raises(DelegationRefusal, match=rf"would have \d+ bytes; at most {MAX_DEFINITION_BYTES}"):
        drafted(workshop, instructions="x" * 1_000_000)


def test_instructions_of_nothing_but_space_are_refused(workshop: WorkshopFolder) -> None:
    with pytest.raises(DelegationRefusal, match="there are no instructions"):
        drafted(workshop, instructions=" \n\t")


@pytest.mark.parametrize(
    "file",
    ["workers/helper.worker", "workers/helper/worker.worker", "helper.yaml", "workers/generated/helper.worker"],
)
def test_a_name_that_is_taken_anywhere_is_refused(workshop: WorkshopFolder, file: str) -> None:
    workshop.write(file, "instructions: Another one.\n")
    with pytest.raises(DelegationRefusal, match="worker 'helper' exists already") as caught:
        drafted(workshop)
    assert file in str(caught.value)


def test_a_locked_worker_is_said_to_be_locked(workshop: WorkshopFolder) -> None:
    workshop.write("workers/helper.worker", "locked: true\n---\nHelp.\n")
    with pytest.raises(DelegationRefusal, match=r"exists already and is locked \(workers/helper\.worker\)"):
        drafted(workshop)


def test_a_worker_that_says_the_same_may_be_made_again(workshop: WorkshopFolder) -> None:
    draft = drafted(workshop)
    workshop.write(draft.source, draft.text)
    assert drafted(workshop) == draft


def test_creation_defaults_of_the_workshop_apply(workshop: WorkshopFolder) -> None:
    workshop.write(
        "workshop.yaml",
        """\
        sandbox: {root: .}
        creation_defaults:
          model: offline:echo
          sandbox: {restrict: /notes, readonly: true}
          attachment_policy: {max_attachments: 0}
          toolsets: {filesystem: {}, delegation: {allow_workers: []}}
        """,
    )
    workshop.write(drafted(workshop).source, drafted(workshop).text)
    loaded = workshop.load("helper")
    assert loaded.model == "offline:echo"
    assert loaded.sandbox is not None
    assert (loaded.sandbox.restrict, loaded.sandbox.readonly) == ("/notes", True)
    assert loaded.attachment_policy.max_attachments == 0
    assert loaded.filesystem
    assert loaded.delegation is not None
    assert loaded.delegation.allow_workers == ()
    assert "model: openai:gpt-5" in drafted(workshop, "other", model="openai:gpt-5").text


def test_a_model_that_cannot_be_is_refused(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "sandbox: {root: .}\nmodels: {fast: offline:echo}\n")
    with pytest.raises(DelegationRefusal, match="model 'quick' is neither provider:name nor an alias"):
        drafted(workshop, model="quick")
    assert "model: fast" in drafted(workshop, model="fast").text


def test_only_schemas_of_authored_workers_can_be_used(workshop: WorkshopFolder) -> None:
    workshop.write("workers/schemas.py", SCHEMAS)
    workshop.write("workers/judge.worker", "output_schema_ref: schemas.py:Score\n---\nJudge.\n")
    # Python that no author refers to must not run, wherever it lies.
    workshop.write("evil.py", "raise SystemExit\n")
    workshop.write("workers/generated/workers/schemas.py", "raise SystemExit\n")
    for reference in ("evil.py:Score", "os.path", "../evil.py:Score", "schemas.py:Other", "schemas.Score"):
        with pytest.raises(DelegationRefusal, match=r"a new worker can have: 'workers/schemas\.py:Score'"):
            drafted(workshop, output_schema_ref=reference)
    for reference in ("schemas.py:Score", "workers/schemas.py:Score"):
        draft = drafted(workshop, output_schema_ref=reference)
        assert "output_schema_ref: workers/schemas.py:Score" in draft.text
        workshop.write(draft.source, draft.text)
        schema = workshop.load("helper").output_schema
        assert schema is not None
        assert list(schema["properties"]) == ["points"]


def test_a_generated_worker_lends_its_schema_to_nobody(workshop: WorkshopFolder) -> None:
    workshop.write("schemas.py", SCHEMAS)
    workshop.write("workers/generated/first.worker", "output_schema_ref: schemas.py:Score\n---\nJudge.\n")
    with pytest.raises(DelegationRefusal, match="a new worker can have: none"):
        drafted(workshop, output_schema_ref="schemas.py:Score")


def test_two_files_of_one_spelling_must_be_told_apart(workshop: WorkshopFolder) -> None:
    for folder in ("one", "two"):
        workshop.write(f"workers/{folder}/schemas.py", SCHEMAS)
        workshop.write(f"workers/{folder}/worker.worker", "output_schema_ref: schemas.py:Score\n---\nJudge.\n")
    with pytest.raises(DelegationRefusal, match="names several files"):
        drafted(workshop, output_schema_ref="schemas.py:Score")
    assert "two/schemas.py:Score" in drafted(workshop, output_schema_ref="workers/two/schemas.py:Score").text
