"""`--help`: commands in groups, usage lines that name what is typed, examples that the parser takes."""

from __future__ import annotations

import io
import shlex

import pytest
from rich.console import Console

from llm_do_temporal.cli.app import COMMANDS, app, epilogue, usage_line
from llm_do_temporal.extension import Command, CommandGroup

EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in command.examples]


def help_of(*words: str) -> str:
    """What `--help` prints."""
    console = Console(file=(written := io.StringIO()), width=120, color_system=None)
    app([*words, "--help"], console=console, exit_on_error=False, result_action="return_value")
    return written.getvalue()


def test_every_command_has_its_place_in_the_help() -> None:
    listed = help_of()
    places = [listed.index(group) for group in CommandGroup]
    assert places == sorted(places)
    assert "Begin here:" in listed
    assert epilogue(Command("bare", print, CommandGroup.CARE)) == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_line_names_what_is_typed(name: str) -> None:
    command, arguments = COMMANDS[name], app[name].assemble_argument_collection(parse_docstring=True)
    values = [one.name for one in arguments if one.show and one.is_positional_only()]
    typed = command.usage.replace("[FLAGS]", "").partition("--")[0]
    assert typed.replace("[", "").replace("]", "").split() == values
    needed = {one.name for one in arguments if one.required and not one.is_positional_only()}
    assert {word for word in command.usage.split() if word.startswith("--")} == needed
    shown = help_of(name)
    assert shown.startswith(usage_line(command))
    assert "Begin here" not in shown


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_examples_are_commands_that_the_parser_takes(name: str, example: str) -> None:
    words = shlex.split(example, comments=True)
    assert words[0] == name
    app.parse_args(words, exit_on_error=False, print_error=False)
    assert example in help_of(name)
