"""Template files: which keys they have, and what a call fills in."""

from __future__ import annotations

import pytest
from workshop_folder import WorkshopFolder

from llm_do_temporal.definitions.templates import load_template
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages import LoadedTemplate

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


def test_functions_and_tools_are_ignored_with_a_warning(workshop: WorkshopFolder) -> None:
    workshop.write(ONE, "system: Judge.\ntools: [Files_list]\nfunctions: |\n  raise SystemExit\n")
    warnings = loaded(workshop).worker.warnings
    assert [warning.split(";")[0] for warning in warnings] == [
        f"{ONE}:2: 'tools' of a template is ignored",
        f"{ONE}:3: 'functions' of a template is ignored",
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
        ("system: Judge.\nprompt: [1]\n", "'prompt' should be text"),
        ("system: !!python/name:os.system x\n", "is not allowed"),
        ("system: It costs $5.\n", "has a '$' that begins no name"),
        ("just text\n", "is not a list of keys and values"),
        ("model: offline:echo\n", "there are no instructions"),
    ],
)
def test_mistakes_in_a_template_are_errors(workshop: WorkshopFolder, text: str, words: str) -> None:
    workshop.write(ONE, text)
    with pytest.raises(DefinitionError) as caught:
        loaded(workshop)
    assert words in str(caught.value)


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
    [("My Deck (v2).yaml", "my_deck_v2_"), ("shell.yaml", "template_shell"), ("1st.yml", "template_1st")],
)
def test_any_file_gets_a_name_that_an_id_can_hold(workshop: WorkshopFolder, file: str, name: str) -> None:
    workshop.write(f"templates/{file}", "system: Judge.\n")
    assert loaded(workshop, f"templates/{file}").worker.name == name


@pytest.mark.parametrize(
    ("name", "params"), [("pkg:summarizer", {"length": "one line"}), ("pkg:pitchdeck-single", {"deck_id": "kelp"})]
)
def test_the_templates_that_ship_are_good(workshop: WorkshopFolder, name: str, params: dict[str, str]) -> None:
    template = loaded(workshop, name, **params)
    assert template.worker.source == name
    assert template.worker.warnings == ()
    assert next(iter(params.values())) in template.worker.instructions + template.prompt
