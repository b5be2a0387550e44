"""Mistakes in YAML, and what people are told to do about them."""

from __future__ import annotations

import pytest

from llm_do_temporal.definitions.yaml.documents import parse_yaml


@pytest.mark.parametrize(
    ("text", "line", "advice"),
    [
        # tabs
        ("toolsets:\n\tdelegation: {}\n", 2, "spaces in place of tabs"),
        ("model:\tfast\n", 1, "spaces in place of tabs"),
        # texts that need quotes
        ("description: @here\n", 1, "in quotes if it begins with @ "),
        ("description: `code`\n", 1, "in quotes if it begins with ` "),
        ("description: %d\n", 1, "in quotes if it begins with % "),
        ("description: *nobody\n", 1, "in quotes if it begins with * "),
        ("description: **bold**\n", 1, "in quotes if it begins with * "),
        ("description: &* x\n", 1, "in quotes if it begins with & "),
        ("description: ] x\n", 1, "in quotes if it begins with ] "),
        ("description: >x\n", 1, "in quotes if it begins with > "),
        ("description: Reads: all\n", 1, "with ': ' in it stands in quotes"),
        # quotes
        ('model: x\ndescription: "never\n\nlocked: true\n', 5, "quotation mark in line 2 "),
        ("description: 'It's fine'\n", 1, "a ' in single quotes is written twice"),
        ('description: "\\q"\n', 1, "in double quotes is written twice"),
        # brackets
        ("compatible_models: [a,\nmodel: x\n", 3, "begins with [ in line 1 "),
        ("model: x\nsandbox: {a: 1\nlocked: true\n", 3, "begins with { in line 2 "),
        # columns
        ("model: x\n  locked: true\n", 2, "begin in the same column"),
        ("sandbox:\n    a: 1\n  b: 2\n", 3, "begin in the same column"),
        ("model: x\n- b\n", 2, "keys and a list in the same column"),
        ("compatible_models: - a\n", 1, "begins below its key"),
        # lines that are none
        ("model: x\nfast\n\n\nlocked: true\n", 2, "Line 2 has no `key:`"),
        ("model: x\n---\nlocked: true\n", 2, "one line `---` too many"),
    ],
)
def test_a_mistake_in_yaml_comes_with_what_to_do(text: str, line: int, advice: str) -> None:
    _, (problem,) = parse_yaml(text, file="a.yaml")
    assert problem.message.startswith("not valid YAML: ")
    assert problem.line == line
    assert advice in (problem.next_step or "")
