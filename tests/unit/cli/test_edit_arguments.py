from __future__ import annotations

import pytest

from llm_do_temporal.cli.terminal.ask import fitting_arguments

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: not valid YAML"),
        ("path: /a\n x: [", "line 2: not valid YAML"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "names with values"),
        ("{}", "'path' is a required property"),
        ('{"path": 3}', "path: 3 is not of type 'string'"),
    ],
)
def test_what_does_not_fit_the_tool_is_said_before_anything_is_sent(text: str, said: str) -> None:
    args, problem = fitting_arguments(text, SCHEMA)
    assert args is None
    assert said in problem


def test_what_fits_is_taken() -> None:
    assert fitting_arguments('{"path": "/a"}', SCHEMA) == ({"path": "/a"}, "")
    assert fitting_arguments("# what is asked\npath: /a\n", SCHEMA) == ({"path": "/a"}, "")
