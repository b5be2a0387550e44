"""Options that commands share, and values given as JSON.

Owns their names, help texts and checks. Must not connect to anything.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from llm_do_temporal.cli.text import PROGRAM
from llm_do_temporal.errors import UsageError, WorkshopNotFound
from llm_do_temporal.workshop_search import search_upwards

if TYPE_CHECKING:
    from llm_do_temporal.client.connections import Connection

OutputFormat = Literal["text", "json", "jsonl"]
_ON_STDOUT = "What goes to stdout: the result (default), one JSON object, or events as JSON lines."
Output = Annotated[OutputFormat, Parameter(name=["--output", "-o"], help=_ON_STDOUT)]
Timeout = Annotated[float | None, Parameter(name="--timeout")]
StayTimeout = Annotated[float | None, Parameter(name="--timeout", help="Seconds to stay at most; the run goes on.")]
Run = Annotated[str, Parameter(help="Id of the run.")]
Json = Annotated[bool, Parameter(name="--json")]
"""Flag of the commands that print JSON instead of text."""
JsonList = Annotated[bool, Parameter(name="--json", help="Print a JSON list.")]
JsonObject = Annotated[bool, Parameter(name="--json", help="Print a JSON object.")]
_WHERE = Group("Where", sort_key=10)
FEWEST_DIGITS = 32
"""Shortest beginning of a digest that may stand for the whole of it."""
_MAKES_ONE = f"`{PROGRAM} init` makes a workshop."


@Parameter(name="*", group=_WHERE)
@dataclass(frozen=True, kw_only=True)
class Location:
    """Which workshop and which Temporal server a command is about."""

    workshop: Annotated[
        Path | None, Parameter(help="Folder with workshop.yaml, or one worker file; default: search upwards.")
    ] = None
    address: Annotated[str | None, Parameter(help="Temporal server, host:port.")] = None
    namespace: Annotated[str | None, Parameter(help="Temporal namespace.")] = None
    api_key: Annotated[str | None, Parameter(help="API key; implies TLS.")] = None
    tls: Annotated[bool | None, Parameter(negative="--no-tls", help="Connect with TLS.")] = None
    tls_cert_path: Annotated[str | None, Parameter(help="Client certificate.")] = None
    tls_key_path: Annotated[str | None, Parameter(help="Private key of the client certificate.")] = None
    tls_ca_path: Annotated[str | None, Parameter(help="Certificate of the authority that signed the server's.")] = None
    tls_server_name: Annotated[str | None, Parameter(help="Name expected in the server's certificate.")] = None
    profile: Annotated[str | None, Parameter(help="Profile of temporal.toml.")] = None

    def connection(self) -> Connection:
        """Return the connection flags in the form that the client takes."""
        from llm_do_temporal.client.connections import Connection

        return Connection(**{one.name: getattr(self, one.name) for one in fields(Connection)})

    def find_workshop(self) -> Path:
        """Return the workshop's folder: --workshop, LLM_DO_WORKSHOP or the nearest upwards. Raises WorkshopNotFound.

        Given one worker file, the result is the folder in which that file is served by itself.
        """
        given = self.workshop or _from_environment()
        if given is None:
            return search_upwards(Path.cwd())
        if given.is_file() and given.name not in ("workshop.yaml", "workshop.yml"):
            from llm_do_temporal.client.embedded.single_file import is_worker_file, single_file_workshop

            if is_worker_file(given.name):
                return single_file_workshop(given)
        folder = given.resolve()
        if not (folder / "workshop.yaml").is_file():
            raise WorkshopNotFound(
                f"there is no workshop.yaml in '{given}'",
                next_step=f"Name the folder that holds workshop.yaml with --workshop DIR. {_MAKES_ONE}",
            )
        return folder

    def local_workshop(self) -> Path | None:
        """Return the workshop's folder; None if there is none. Raises WorkshopNotFound for a wrong --workshop."""
        if self.workshop is not None or _from_environment() is not None:
            return self.find_workshop()
        try:
            return self.find_workshop()
        except WorkshopNotFound:
            return None

    def as_flags(self) -> str:
        """Return the flags, with a space before each, with which another command is about the same place."""
        named = [(one.name, getattr(self, one.name)) for one in fields(self) if one.name not in ("api_key", "tls")]
        given = [(name.replace("_", "-"), shlex.quote(str(value))) for name, value in named if value is not None]
        flags = [f" --{name} {value}" for name, value in given]
        if self.tls is not None:
            flags.append(" --tls" if self.tls else " --no-tls")
        return "".join(flags)

    def command(self, words: str) -> str:
        """Return a complete command line of this program, to be copied; `words` are the command and its arguments."""
        return f"{PROGRAM} {words}{self.as_flags()}"


HERE = Location()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Several:
    """Which questions a decision is about, where it is about several."""

    all: Annotated[bool, Parameter(name="--all", negative="", help="All that the run asks.")] = False
    group: Annotated[
        str | None, Parameter(help="All of a group, in all runs; its key, or how that begins: `approvals --group`.")
    ] = None
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Do not ask whether all of these are meant.")] = (
        False
    )
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="With --all or --group: print a JSON list of the outcomes.")
    ] = False


def read_json(text: str, option: str) -> Any:
    """Return the value of an option given as JSON or as @FILE. Raises UsageError, which names the option."""
    # Imported here: most commands read no file.
    from llm_do_temporal.client.batches import read_given
    from llm_do_temporal.messages.base import read_json as read_value

    source, what = text, f"the value of {option}"
    step = f'Quote it for the shell, like {option} \'{{"key": "value"}}\', or give a file: {option} @FILE.'
    if text.startswith("@"):
        what = f"the file '{text[1:]}' given with {option}"
        source, step = read_given(Path(text[1:]), what), "Give a file with one JSON value, encoded as UTF-8."
    try:
        return read_value(source)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}", next_step=step) from error


def read_duration_flag(text: str, flag: str, *, is_age: bool = False) -> timedelta:
    """Return the length of time that a flag says, like `30d` or `12h`; an age may be longer than a limit.

    Raises UsageError, which names the flag.
    """
    from llm_do_temporal.policy.budget import LONGEST_AGE, LONGEST_DURATION, read_duration

    try:
        return timedelta(seconds=read_duration(text, longest=LONGEST_AGE if is_age else LONGEST_DURATION))
    except ValueError as error:
        raise UsageError(f"{flag} {text[:40]}: {error}") from error


def check_digest(digest: str | None) -> None:
    """Raise UsageError for a beginning of a digest that is too short to stand for the whole of it."""
    if digest is not None and len(digest) < FEWEST_DIGITS:
        raise UsageError(
            f"--digest needs at least {FEWEST_DIGITS} digits, and has {len(digest)}",
            next_step="`approvals RUN --json` and `review RUN --json` show whole digests.",
        )


def check_limit(limit: int | None) -> None:
    """Raise UsageError for a number of rows that is none; None: there is no limit."""
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} is not a number above zero")


def read_json_object(text: str, option: str) -> dict[str, Any]:
    """Return the object that an option gives as JSON or as @FILE. Raises UsageError, which names the option."""
    value = read_json(text, option)
    if not isinstance(value, dict):
        raise UsageError(f'the value of {option} is not a JSON object; write it like \'{{"path": "/a.txt"}}\'')
    return value  # pyright: ignore[reportUnknownVariableType]


def check_timeout(seconds: float | None) -> None:
    """Raise UsageError for a limit that is not a number of seconds above zero."""
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UsageError(f"--timeout {seconds:g} is not a number of seconds above zero")


def _from_environment() -> Path | None:
    named = os.environ.get("LLM_DO_WORKSHOP")
    return Path(named) if named else None
