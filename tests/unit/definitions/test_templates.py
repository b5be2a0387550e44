"""Template files: which keys they have, and what a call fills in."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from llm_do_temporal.definitions.registry.registry import load_started, load_template
from llm_do_temporal.errors import DefinitionError, EffectFailed, UsageError
from llm_do_temporal.messages.activities import LoadedTemplate
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.workshops.workshop_folder import WorkshopFolder

ONE = "templates/one.yaml"


def loaded(workshop: WorkshopFolder, name: str = ONE, given: str = "The input.", **params: str) -> LoadedTemplate:
    return load_template(workshop.registry(), workshop.root, name, params, given)


@pytest.mark.parametrize("key", ["system", "instructions"])
def test_the_words_of_a_template_are_a_workers_instructions(workshop: WorkshopFolder, key: str) -> None:
    workshop.write(ONE, f"name: Whatever it is called!\n{key}: Judge it.\nmodel: offline:echo\n")
    template = loaded(workshop)
    assert (template.worker.name, template.worker.source) == ("one", ONE)
    assert (template.worker.instructions, template.worker.model) == ("Judge it.", "offline:echo")
    assert template.prompt == "The input."


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        # where the prompt says where the input goes, it goes there
        ("Judge $input now.", "Judge The input. now."),
        ("Judge ${input}ly.", "Judge The input.ly."),
        # else it follows
        ("Judge this.", "Judge this.\n\nThe input."),
        ("It costs $$5.", "It costs $5.\n\nThe input."),
    ],
)
def test_the_input_goes_where_the_prompt_says(workshop: WorkshopFolder, prompt: str, told: str) -> None:
    workshop.write(ONE, f"prompt: '{prompt}'\n")
    assert loaded(workshop).prompt == told


def test_parameters_are_filled_in_and_are_nothing_but_text(workshop: WorkshopFolder) -> None:
    workshop.write(ONE, "system: Be $tone about $deck_id. {{ 6 * 7 }}\nprompt: $tone\n")
    template = loaded(workshop, tone="{{ 1 + 1 }} $deck_id ${x}", deck_id="!!yaml\n---\n{% include 'x' %}")
    assert template.worker.instructions == (
        "Be {{ 1 + 1 }} $deck_id ${x} about !!yaml\n---\n{% include 'x' %}. {{ 6 * 7 }}"
    )
    assert template.prompt == "{{ 1 + 1 }} $deck_id ${x}\n\nThe input."


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "it needs 'tone'"),
        ({"tone": "dry", "size": "1"}, "it has no parameter 'size'"),
        ({"Tone": "dry"}, "it has no parameter 'Tone'; it needs 'tone'"),
        # the input is not a parameter
        ({"tone": "dry", "input": "mine"}, "it has no parameter 'input'"),
    ],
)
def test_parameters_that_are_missing_or_unknown_are_named(
    workshop: WorkshopFolder, params: dict[str, str], words: str
) -> None:
    workshop.write(ONE, "system: Be $tone. $input\n")
    with pytest.raises(EffectFailed) as caught:
        loaded(workshop, **params)
    assert words in str(caught.value)
    assert caught.value.next_step == "Its parameters are 'tone'."


def test_inline_functions_are_ignored_with_a_warning(workshop: WorkshopFolder) -> None:
    workshop.write(ONE, "system: Judge.\nfunctions: |\n  raise SystemExit\n")
    template = loaded(workshop).worker
    (warning,) = template.warnings
    assert warning.startswith(f"{ONE}:2: 'functions' of a template is ignored")
    assert template.python is None


def test_tools_names_functions_of_the_authors_and_classes(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", "def slugify(text: str) -> str: ...\ndef count(text: str) -> int: ...\n")
    workshop.write(
        ONE,
        """\
        system: Judge.
        tools: [slugify, package.Search, Files_list]
        toolsets: {custom: {slugify: {pre_approved: true}, count: }}
        """,
    )
    template = loaded(workshop).worker
    assert template.python is not None
    assert [(tool.name, tool.ruling) for tool in template.python.tools] == [
        ("slugify", "pre_approved"),
        ("count", None),
    ]
    assert [toolset.reference for toolset in template.external] == ["package.Search"]
    (warning,) = template.warnings
    assert warning.startswith(f"{ONE}:2: tool 'Files_list' is left out: tools.py has no such function")


def test_a_file_of_tools_that_breaks_is_an_error_of_its_own(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", "raise OSError\n\ndef slugify(text: str) -> str:\n    return text\n")
    workshop.write(ONE, "system: Judge.\ntools: [slugify]\n")
    with pytest.raises(DefinitionError, match=r"tools\.py:1"):
        loaded(workshop)


def test_params_of_a_template_are_what_a_call_may_leave_out(workshop: WorkshopFolder) -> None:
    workshop.write(ONE, "system: Be $tone about $deck_id.\nparams: {tone: dry, max_decks: 5, strict: true}\n")
    template = loaded(workshop, deck_id="kelp", max_decks="3")
    assert template.worker.instructions == "Be dry about kelp."
    assert template.prompt == "The input.\n\nmax_decks: 3\n\nstrict: true"
    assert loaded(workshop, deck_id="kelp", tone="loud").worker.instructions == "Be loud about kelp."
    with pytest.raises(EffectFailed, match=r"it has no parameter 'size'; it needs 'deck_id'"):
        loaded(workshop, size="1")


def test_the_orchestrator_of_the_reference_is_a_template(workshop: WorkshopFolder) -> None:
    workshop.write(
        "templates/pitchdeck-orchestrator.yaml",
        """\
        # pitchdeck-orchestrator.yaml (pseudo-YAML, simplified)
        system: |
          You orchestrate pitch deck evaluations. First list available PDFs,
          then process each one using the locked evaluation template.

        tools:
          - Files_list
          - llm_worker_call

        params:
          max_decks: 5
        """,
    )
    template = loaded(workshop, "templates/pitchdeck-orchestrator.yaml")
    assert template.worker.instructions.startswith("You orchestrate pitch deck evaluations.")
    assert template.prompt == "The input.\n\nmax_decks: 5"
    assert [warning.split(": ")[1] for warning in template.worker.warnings] == [
        "tool 'Files_list' is left out",
        "tool 'llm_worker_call' is left out",
    ]


def test_schema_object_is_the_output_schema(workshop: WorkshopFolder) -> None:
    workshop.write(ONE, "system: Judge.\nschema_object: {type: object, properties: {points: {type: integer}}}\n")
    schema = loaded(workshop).worker.output_schema
    assert schema is not None
    assert schema["properties"] == {"points": {"type": "integer"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("system: Judge.\nschema_object: {type: array}\n", "templates/one.yaml:2: 'output_schema': the type of a"),
        ("system: a\ninstructions: b\n", "'system' and 'instructions' are both given"),
        ("system: Judge.\nsurprise: 1\n", "templates/one.yaml:2: unknown key 'surprise'"),
        ("system: Judge.\nschema_in_ref: a.py:B\n", "'schema_in_ref' cannot be set in a template"),
        ("system: Judge.\nprompt: [1]\n", "templates/one.yaml:2: 'prompt' should be text"),
        ("system: Judge.\nparams: {a: [1]}\n", "templates/one.yaml:2: 'params.a' should be"),
        ("system: Judge.\nparams: {a b: 1}\n", "templates/one.yaml:2: "),
        ("system: Judge.\ntools: slugify\n", "templates/one.yaml:2: 'tools' should be a list"),
        ("system: Judge.\ntools: [a]\ntoolsets: [b]\n", "templates/one.yaml:3: 'toolsets' should be"),
        ("system: !!python/name:os.system x\n", "is not allowed"),
        ("system: It costs $5.\n", "templates/one.yaml:1: template 'templates/one.yaml' has a '$' that begins no name"),
        ("system: Judge.\nprompt: $5\n", "templates/one.yaml:2: template 'templates/one.yaml' has a '$'"),
        ("just text\n", "is not a list of keys and values"),
        ("model: offline:echo\n", "there are no instructions"),
    ],
)
def test_mistakes_in_a_template_are_errors(workshop: WorkshopFolder, text: str, words: str) -> None:
    workshop.write(ONE, text)
    with pytest.raises(DefinitionError) as caught:
        loaded(workshop)
    assert words in str(caught.value)


def test_an_edited_template_is_read_anew(workshop: WorkshopFolder) -> None:
    # The same registry keeps nothing of what it has read.
    registry, found = workshop.registry(), list[str]()
    for text in ("Judge.", "Judge well."):
        workshop.write(ONE, f"system: {text}\n")
        found.append(load_template(registry, workshop.root, ONE, {}, "The input.").worker.instructions)
    assert found == ["Judge.", "Judge well."]


def test_a_template_that_is_not_there_is_named(workshop: WorkshopFolder) -> None:
    with pytest.raises(EffectFailed, match=r"there is no template 'templates/one\.yaml'"):
        loaded(workshop)
    with pytest.raises(EffectFailed, match="there is no template 'pkg:nobody'"):
        loaded(workshop, "pkg:nobody")


def test_a_link_out_of_the_workshop_is_no_template(workshop: WorkshopFolder) -> None:
    outside = workshop.root.parent / "outside.yaml"
    outside.write_text("system: Judge.\n", encoding="utf-8")
    (workshop.root / "templates").mkdir()
    (workshop.root / ONE).symlink_to(outside)
    with pytest.raises(DefinitionError, match="leads out of the workshop"):
        loaded(workshop)


@pytest.mark.parametrize(
    ("file", "name"),
    [("My Deck (v2).yaml", "my_deck_v2_-"), ("shell.yaml", "shell-"), ("1st.yml", "template_1st-")],
)
def test_any_file_gets_a_name_that_an_id_can_hold(workshop: WorkshopFolder, file: str, name: str) -> None:
    workshop.write(f"templates/{file}", "system: Judge.\n")
    assert loaded(workshop, f"templates/{file}").worker.name.startswith(name)


def test_what_was_filled_in_is_known_afterwards(workshop: WorkshopFolder) -> None:
    path = workshop.write("templates/decks/one.yaml", "system: Be $tone about $deck_id.\nparams: {tone: dry, n: 5}\n")
    template = loaded(workshop, "templates/decks/one.yaml", deck_id="kelp").template
    assert template is not None
    assert (template.name, template.input) == ("templates/decks/one.yaml", "The input.")
    assert template.params == {"tone": "dry", "n": "5", "deck_id": "kelp"}
    assert template.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"worker": "templates/gone.yaml"}, "there is no template 'templates/gone.yaml'"),
        ({"worker": "../one.yaml"}, "is not a path inside the workshop"),
        ({"worker": ONE, "params": {"size": 1}}, "it has no parameter 'size'; it needs 'tone'"),
        ({"worker": ONE, "batch": {"items": [{"name": "a"}]}}, "cannot be run for several items"),
        ({"worker": "judge", "params": {"tone": "dry"}}, "'params' are for templates, and worker 'judge' is none"),
    ],
)
def test_what_a_run_cannot_begin_with_is_a_mistake_of_its_start(
    workshop: WorkshopFolder, start: dict[str, Any], words: str
) -> None:
    workshop.write(ONE, "system: Be $tone.\n")
    workshop.write("workers/judge.worker", "---\n---\nJudge.\n")
    with pytest.raises(UsageError) as caught:
        load_started(workshop.registry(), workshop.root, StartRunInput.model_validate(start))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"prompt": "Judge it."}, "Judge it."),
        ({"input": {"deck": "kelp"}}, '{"deck": "kelp"}'),
        ({"prompt": "Judge it.", "input": "Now."}, "Judge it.\n\nNow."),
    ],
)
def test_a_template_begins_a_run_with_its_input_filled_in(
    workshop: WorkshopFolder, start: dict[str, Any], told: str
) -> None:
    workshop.write(ONE, "system: Be $tone, $n times.\nprompt: Told $input\n")
    request = StartRunInput.model_validate({"worker": ONE, "params": {"tone": "dry", "n": 2}, **start})
    worker, template = load_started(workshop.registry(), workshop.root, request)
    assert (worker.name, worker.instructions) == ("one", "Be dry, 2 times.")
    assert template is not None
    assert template.prompt == f"Told {told}"


def test_a_template_that_ships_begins_a_run_under_its_name(workshop: WorkshopFolder) -> None:
    request = StartRunInput(worker="pkg:summarizer", prompt="A story.", params={"length": "one line"})
    worker, template = load_started(workshop.registry(), workshop.root, request)
    assert (worker.name, worker.source) == ("pkg--summarizer", "pkg:summarizer")
    assert template is not None
    assert "in one line" in template.prompt


@pytest.mark.parametrize(
    ("name", "params"), [("pkg:summarizer", {"length": "one line"}), ("pkg:pitchdeck-single", {"deck_id": "kelp"})]
)
def test_the_templates_that_ship_are_good(workshop: WorkshopFolder, name: str, params: dict[str, str]) -> None:
    template = loaded(workshop, name, **params)
    assert template.worker.source == name
    assert template.worker.warnings == ()
    assert next(iter(params.values())) in template.worker.instructions + template.prompt


def test_the_single_deck_takes_one_file_and_returns_json_and_looks_for_nothing(workshop: WorkshopFolder) -> None:
    worker = loaded(workshop, "pkg:pitchdeck-single", deck_id="kelp").worker
    assert (worker.attachment_policy.max_attachments, worker.attachment_policy.allowed_suffixes) == (
        1,
        (".pdf", ".txt"),
    )
    assert worker.output_schema is not None
    assert set(worker.output_schema["required"]) >= {"deck_id", "scores", "summary"}
    assert not worker.filesystem
    assert (worker.delegation, worker.python, worker.external) == (None, None, ())
