"""`--help`: commands in groups, usage lines that name what is typed, examples that the parser takes."""

from __future__ import annotations

import io
import shlex

import pytest
from rich.console import Console

from llm_do_temporal.cli.app import COMMANDS, app
from llm_do_temporal.cli.command_help import COMMAND_HELP, OTHER

EXAMPLES = [(name, example) for name, entry in COMMAND_HELP.items() for example in entry.examples]


def help_of(*words: str) -> str:
    """What `--help` prints."""
    console = Console(file=(written := io.StringIO()), width=120, color_system=None)
    app([*words, "--help"], console=console, exit_on_error=False, result_action="return_value")
    return written.getvalue()


def test_every_command_has_its_place_in_the_help() -> None:
    assert set(COMMAND_HELP) == COMMANDS
    listed = help_of()
    places = [listed.index(group) for group in dict.fromkeys(entry.group.name for entry in COMMAND_HELP.values())]
    assert places == sorted(places)
    assert "Begin here:" in listed
    assert OTHER.epilogue == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", COMMAND_HELP)
def test_the_usage_line_names_what_is_typed(name: str) -> None:
    entry, arguments = COMMAND_HELP[name], app[name].assemble_argument_collection(parse_docstring=True)
    values = [one.name for one in arguments if one.show and one.is_positional_only()]
    typed = entry.usage.replace("[FLAGS]", "").partition("--")[0]
    assert typed.replace("[", "").replace("]", "").split() == values
    needed = {one.name for one in arguments if one.required and not one.is_positional_only()}
    assert {word for word in entry.usage.split() if word.startswith("--")} == needed
    shown = help_of(name)
    assert shown.startswith(entry.usage_line(name))
    assert "Begin here" not in shown


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_examples_are_commands_that_the_parser_takes(name: str, example: str) -> None:
    words = shlex.split(example, comments=True)
    assert words[0] == name
    app.parse_args(words, exit_on_error=False, print_error=False)
    assert example in help_of(name)
