"""Help of the commands beyond their docstrings: the group of each, its usage line, and examples.

Owns words alone. `app` gives them to the commands, and docs/reference/command-line.md has the same usage lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Group

from llm_do_temporal.cli.text import PROGRAM

_RUNS = Group("Start and follow runs", sort_key=1)
_DECISIONS = Group("Decide", sort_key=2)
_WORKSHOP = Group("Make a workshop and check it", sort_key=3)
_SERVICES = Group("Serve", sort_key=4)
_CARE = Group("Look after it", sort_key=5)
PROGRAM_FLAGS = Group("Flags", sort_key=6)
"""Group of the program's own flags, `--help` and `--version`."""


@dataclass(frozen=True)
class CommandHelp:
    """Help of one command."""

    group: Group
    usage: str = "[FLAGS]"
    """Words after the command's name."""
    examples: tuple[str, ...] = ()
    """Command lines without the program's name, each with a remark after two spaces and `#` where it needs one."""

    def usage_line(self, name: str) -> str:
        """Return the usage line of the command with this name."""
        return f"Usage: {PROGRAM} {name} {self.usage}"

    @property
    def epilogue(self) -> str:
        """The examples as they stand below the flags; empty without any."""
        return "\n".join(["Examples:", *(f"  {PROGRAM} {one}" for one in self.examples)]) if self.examples else ""


COMMAND_HELP = {
    "start": CommandHelp(
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
    "try": CommandHelp(
        _RUNS,
        "WORKER [PROMPT] [FLAGS]",
        (
            'try notes "buy bread"  # nothing is written',
            'try notes "buy bread" --watch  # again on each save of its file',
        ),
    ),
    "watch": CommandHelp(_RUNS, "RUN [FLAGS]", ("watch decks-1", "watch decks-1 -o jsonl --from-seq 120")),
    "result": CommandHelp(_RUNS, "RUN [FLAGS]", ("result decks-1 -o json --timeout 60",)),
    "show": CommandHelp(_RUNS, "RUN [FLAGS]", ("show decks-1", "show decks-1 --cost")),
    "fork": CommandHelp(
        _RUNS,
        "RUN [FLAGS]",
        (
            "fork decks-1 --at main/pitch_evaluator-2@3 --dry-run",
            "fork decks-1 --worker workers/pitch_evaluator.worker",
            'fork decks-1 --decide a3=reject:"too long"',
        ),
    ),
    "diff": CommandHelp(_RUNS, "RUN OTHER [FLAGS]", ("diff decks-1 decks-1-fork",)),
    "logs": CommandHelp(_RUNS, "RUN [FLAGS]", ("logs decks-1 --follow",)),
    "export": CommandHelp(
        _RUNS,
        "RUN [FLAGS]",
        ("export decks-1 --format html -o decks-1.html", "export --patch rename-1 -o rename-1.patch  # for git apply"),
    ),
    "list": CommandHelp(_RUNS, "[FLAGS]", ("list --limit 10",)),
    "cancel": CommandHelp(_RUNS, "RUN [FLAGS]"),
    "delete": CommandHelp(_RUNS, "RUN [FLAGS]", ("delete decks-1 --cancel --yes",)),
    "approvals": CommandHelp(
        _DECISIONS,
        "[RUN] [ID] [FLAGS]",
        (
            "approvals",
            "approvals watch  # stay, and answer what comes",
            "approvals decks-1 a3",
            "approvals decks-1 --json",
        ),
    ),
    "approve": CommandHelp(
        _DECISIONS,
        "RUN [ID] [FLAGS]",
        ("approve decks-1 a3", "approve decks-1 --digest 5f0c2b1e9a4711c08be2d7703f5a9c64"),
    ),
    "reject": CommandHelp(_DECISIONS, "RUN [ID] --reason TEXT [FLAGS]", ('reject decks-1 a3 --reason "not today"',)),
    "modify": CommandHelp(
        _DECISIONS,
        "RUN [ID] [--args JSON] [FLAGS]",
        ("modify decks-1 a3", """modify decks-1 a3 --args '{"path": "/b.md", "content": "…"}'"""),
    ),
    "undo": CommandHelp(_DECISIONS, "RUN ID [FLAGS]", ("undo decks-1 a3",)),
    "review": CommandHelp(
        _DECISIONS,
        "RUN [PATH] [FLAGS]",
        (
            "review rename-1  # go through it on the terminal",
            "review rename-1 --diff src/",
            "review rename-1 --all --reject src/a.py:1f2e3d4c --comment 'src/a.py:12: keep the old name here'",
        ),
    ),
    "schedule": CommandHelp(
        _RUNS,
        "[FLAGS]",
        (
            "schedule create nightly notes 'tidy up' --cron '0 7 * * 1-5' --timezone Europe/Berlin",
            "schedule create pulse checker --every 15m",
            "schedule create files notes --every 1d --each 'files/*.md'",
            "schedule trigger nightly",
        ),
    ),
    "eval": CommandHelp(
        _RUNS,
        "FILE [FLAGS]",
        (
            "eval workers/greeter.eval.yaml",
            "eval greeter --repeats 5 --junit report.xml",
            "eval list",
            "eval show greeter@-1",
            "eval compare greeter@-1 greeter",
            "eval add greeter-1f2e3d4c --to workers/greeter.eval.yaml",
        ),
    ),
    "grants": CommandHelp(_DECISIONS, "RUN [FLAGS]"),
    "revoke": CommandHelp(_DECISIONS, "RUN ID [FLAGS]", ("revoke decks-1 a3",)),
    "rules": CommandHelp(
        _DECISIONS,
        "[FLAGS]",
        (
            "rules",
            "rules suggest --since 30d  # a diff for patch or git apply",
            "rules test --add '{command: git log}'",
        ),
    ),
    "init": CommandHelp(_WORKSHOP, "[DIRECTORY] [FLAGS]", ("init my-shop", "init decks --example pitch-decks")),
    "check": CommandHelp(
        _WORKSHOP,
        "[PATH] [FLAGS]",
        (
            "check",
            "check workers/notes.worker",
            "check --watch  # again after each save",
            "check --output-format github  # in GitHub Actions",
        ),
    ),
    "schema": CommandHelp(_WORKSHOP, "KIND", ("schema workshop",)),
    "doctor": CommandHelp(_WORKSHOP),
    "models": CommandHelp(_WORKSHOP, "[NAME] [FLAGS]", ("models", "models haiku")),
    "import": CommandHelp(_WORKSHOP, "PATH [FLAGS]", ("import ../agents --into my-shop",)),
    "certify": CommandHelp(
        _WORKSHOP,
        "WORKER [PROMPT] [FLAGS]",
        ('certify notes "buy bread" --every 5  # free with offline models', "certify greetings.eval.yaml --every 5"),
    ),
    "dev": CommandHelp(_SERVICES, "[FLAGS]", ("dev", "dev --temporal-ui")),
    "ui": CommandHelp(_SERVICES),
    "mcp": CommandHelp(_SERVICES, "[FLAGS]", ("mcp  # an agent starts it", "mcp --http --port 8236")),
    "acp": CommandHelp(_SERVICES, "WORKER [FLAGS]", ("acp notes  # an editor starts it",)),
    "lsp": CommandHelp(_SERVICES, "[FLAGS]", ("lsp  # an editor starts it",)),
    "slack": CommandHelp(_SERVICES, "[FLAGS]", ("slack --channel C0123ABCD",)),
    "token": CommandHelp(
        _SERVICES,
        "[FLAGS]",
        (
            "token create ci --scopes start,read  # a program",
            "token create ada --person --scopes start,read,decide",
            "token revoke ci",
        ),
    ),
    "worker": CommandHelp(_SERVICES, "[FLAGS]", ("worker --address temporal.example.com:7233",)),
    "codec-server": CommandHelp(_SERVICES),
    "gc": CommandHelp(_CARE, "[FLAGS]", ("gc --dry-run",)),
    "migrate-check": CommandHelp(_CARE),
    "completion": CommandHelp(_CARE, "SHELL", ("completion bash",)),
}
"""Help by the name of the command, in the order of the list of commands."""
OTHER = CommandHelp(_CARE)
"""Help of a command without an entry."""

START = f"""\
Begin here:
  {PROGRAM} init my-shop && cd my-shop
  {PROGRAM} start notes "buy bread"  # asks before it writes
  {PROGRAM} approvals                # what waits, from any terminal
  {PROGRAM} dev                      # a server that stays, with a page
"""
"""Examples below the list of commands."""
