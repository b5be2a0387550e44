"""The program: its commands, and the settings that they share.

Owns the list of commands. Each is a function of a module in `commands`; `completion` is here, since it needs the list.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from cyclopts import App, Group, Parameter

from llm_do_temporal.cli.commands.approvals import approvals, approve, modify, reject, undo, watch_approvals
from llm_do_temporal.cli.commands.grants import grants, revoke
from llm_do_temporal.cli.commands.runs import cancel, list_runs, result, show, watch
from llm_do_temporal.cli.commands.serve import dev, migrate_check, ui, worker
from llm_do_temporal.cli.commands.start import start
from llm_do_temporal.cli.commands.tokens import create_token, list_tokens, revoke_token
from llm_do_temporal.cli.commands.workshop import check, init, models, schema
from llm_do_temporal.cli.text import PROGRAM
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extension import Command, CommandGroup, answers

_START = f"""\
Begin here:
  {PROGRAM} init my-shop && cd my-shop
  {PROGRAM} start notes "buy bread"  # asks before it writes
  {PROGRAM} approvals                # what waits, from any terminal
  {PROGRAM} dev                      # a server that stays, with a page
"""
"""Examples below the list of commands."""

app = App(
    name=PROGRAM,
    help="Run LLM workers as durable Temporal workflows, with precise human approvals.",
    version=lambda: version(PROGRAM),
    default_parameter=Parameter(negative=(), show_default=False),
    help_format="plaintext",
    help_epilogue=_START,
    group_commands=Group("Flags", sort_key=len(CommandGroup) + 1),
    usage=f"Usage: {PROGRAM} COMMAND …    ({PROGRAM} COMMAND --help tells more)",
)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script with which a shell completes commands and flags.

    Parameters
    ----------
    shell
        Which shell is to run it, from its start file.
    """
    print(app.generate_completion(shell=shell))
    if shell == "zsh":
        # The script only defines what completes us, for a file of zsh's own folders.
        print(f"compdef _cyclopts_{PROGRAM} {PROGRAM}")


def usage_line(command: Command) -> str:
    """Return the usage line of a command."""
    return f"Usage: {PROGRAM} {command.name} {command.usage}"


def epilogue(command: Command) -> str:
    """Return the examples of a command as they stand below its flags; empty without any."""
    return "\n".join(["Examples:", *(f"  {PROGRAM} {one}" for one in command.examples)]) if command.examples else ""


_RUNS, _DECISIONS, _WORKSHOP, _SERVICES, _CARE = CommandGroup
_GROUPS = {group: Group(group.value, sort_key=order) for order, group in enumerate(CommandGroup, start=1)}
_COMMANDS = (
    Command(
        "start",
        start,
        _RUNS,
        "WORKER [PROMPT] [FLAGS]",
        (
            'start notes "buy bread"',
            "start deck_reader -a deck.pdf -o json",
            "start notes.worker 'buy bread'  # one file by itself",
            "start deck_reader --each 'decks/*.pdf' --concurrency 4",
            "start --retry-failed deck_reader-1f2e3d4c",
        ),
    ),
    Command("watch", watch, _RUNS, "RUN [FLAGS]", ("watch decks-1", "watch decks-1 -o jsonl --from-seq 120")),
    Command("result", result, _RUNS, "RUN [FLAGS]", ("result decks-1 -o json --timeout 60",)),
    Command("show", show, _RUNS, "RUN [FLAGS]", ("show decks-1", "show decks-1 --cost")),
    Command("list", list_runs, _RUNS, "[FLAGS]", ("list --limit 10",)),
    Command("cancel", cancel, _RUNS, "RUN [FLAGS]"),
    Command(
        "approvals",
        approvals,
        _DECISIONS,
        "[RUN] [ID] [FLAGS]",
        (
            "approvals",
            "approvals watch  # stay, and answer what comes",
            "approvals decks-1 a3",
            "approvals decks-1 --json",
        ),
        {"watch": watch_approvals},
    ),
    Command(
        "approve",
        approve,
        _DECISIONS,
        "RUN [ID] [FLAGS]",
        ("approve decks-1 a3", "approve decks-1 --digest 5f0c2b1e9a4711c08be2d7703f5a9c64"),
    ),
    Command(
        "reject", reject, _DECISIONS, "RUN [ID] --reason TEXT [FLAGS]", ('reject decks-1 a3 --reason "not today"',)
    ),
    Command(
        "modify",
        modify,
        _DECISIONS,
        "RUN [ID] [--args JSON] [FLAGS]",
        ("modify decks-1 a3", """modify decks-1 a3 --args '{"path": "/b.md", "content": "…"}'"""),
    ),
    Command("undo", undo, _DECISIONS, "RUN ID [FLAGS]", ("undo decks-1 a3",)),
    Command("grants", grants, _DECISIONS, "RUN [FLAGS]"),
    Command("revoke", revoke, _DECISIONS, "RUN ID [FLAGS]", ("revoke decks-1 a3",)),
    Command("dev", dev, _SERVICES, "[FLAGS]", ("dev", "dev --temporal-ui")),
    Command("worker", worker, _SERVICES, "[FLAGS]", ("worker --address temporal.example.com:7233",)),
    Command("ui", ui, _SERVICES),
    Command(
        "token",
        list_tokens,
        _SERVICES,
        "[FLAGS]",
        (
            "token create ci --scopes start,read  # a program",
            "token create ada --person --scopes start,read,decide",
            "token revoke ci",
        ),
        {"create": create_token, "revoke": revoke_token},
    ),
    Command("migrate-check", migrate_check, _CARE),
    Command(
        "check",
        check,
        _WORKSHOP,
        "[PATH] [FLAGS]",
        (
            "check",
            "check workers/notes.worker",
            "check --watch  # again after each save",
            "check --output-format github  # in GitHub Actions",
        ),
    ),
    Command("schema", schema, _WORKSHOP, "KIND", ("schema workshop",)),
    Command("init", init, _WORKSHOP, "[DIRECTORY] [FLAGS]", ("init my-shop", "init decks --example pitch-decks")),
    Command("models", models, _WORKSHOP, "[NAME] [FLAGS]", ("models", "models haiku")),
    Command("completion", completion, _CARE, "SHELL", ("completion bash",)),
)


def all_commands() -> dict[str, Command]:
    """Return all commands by their names, those of extensions behind the others.

    Raises UsageError for two with one name, and for an extension that cannot be loaded.
    """
    commands = {command.name: command for command in _COMMANDS}
    for name, added in answers(lambda one: tuple(one.commands())).items():
        for command in added:
            if command.name in commands:
                raise UsageError(
                    f"extension '{name}' has a command '{command.name}', which there is already",
                    next_step="Uninstall its package.",
                )
            commands[command.name] = command
    return commands


COMMANDS = all_commands()
"""Every command, by its name."""
for _order, _command in enumerate(COMMANDS.values()):
    app.command(
        _command.function,
        name=_command.name,
        sort_key=_order,
        group=_GROUPS[_command.group],
        usage=usage_line(_command),
        help_epilogue=epilogue(_command),
    )
    _below = Group("Commands")
    for _name, _function in _command.subcommands.items():
        app[_command.name].command(_function, name=_name, group=_below, help_epilogue="")
