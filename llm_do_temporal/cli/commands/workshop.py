"""`init`, `check`, `schema` and `models`: a new workshop, mistakes of its files, and what it names. No server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.options import HERE, Location
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import print_table
from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extension import definition_files

if TYPE_CHECKING:
    from llm_do_temporal.cli.reports.problems import ProblemFormat
    from llm_do_temporal.policy.models import ModelAlias


def init(directory: Path = Path(), /, *, example: Annotated[str | None, Parameter(name="--example")] = None) -> None:
    """Make a workshop that runs at once, with no key and no server. Nothing is overwritten.

    Parameters
    ----------
    directory
        The workshop's folder; it is made where it is missing. The current one by default.
    example
        Make this example instead of a workshop with one small worker: pitch-decks, which evaluates five pitch decks.
    """
    from llm_do_temporal.definitions.starter import WORKER, make_workshop

    for name in make_workshop(directory, example):
        print(visible_line(str(directory / name)))
    where = "" if directory == Path() else f" --workshop {shlex.quote(str(directory))}"
    command = f"{WORKER} 'buy bread'" if example is None else "pitch_orchestrator 'evaluate every deck'"
    say("\nNow try, in a terminal; it asks you before it writes a file:")
    say(f"  {PROGRAM} start {command}{where}")
    say(f"  {PROGRAM} doctor{where}")


_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


async def check(
    path: Path | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative="")] = False,
    output_format: Literal["text", "json", "github", "sarif"] = "text",
    location: Location = HERE,
) -> int:
    """Check every file of a workshop.

    Parameters
    ----------
    path
        The workshop's folder, or one file of it.
    watch
        Stay, and check again after each save; Ctrl-C ends with the exit code of the last check.
    output_format
        How problems are written: as lines, as JSON, as annotations of GitHub Actions, or as SARIF.
    """
    folder, only = _scope(path, location)
    if not watch:
        return _check(folder, only, output_format)
    from llm_do_temporal.cli.files import SavedFiles, until_saved

    while True:
        saved = SavedFiles(lambda: _files(folder), any_change=True)
        if sys.stdout.isatty() and output_format == "text":
            print(_CLEAR, end="")
        code = _check(folder, only, output_format)
        sys.stdout.flush()
        if not await until_saved(saved, "watching; Ctrl-C ends"):
            return code


def _check(folder: Path, only: str | None, written: ProblemFormat) -> int:
    from llm_do_temporal.cli.reports.problems import problem_lines, summary_line
    from llm_do_temporal.definitions.check import check_workshop

    problems = [problem for problem in check_workshop(folder) if only is None or problem.file == only]
    for line in problem_lines(problems, written, folder):
        print(line)
    errors = sum(problem.severity == "error" for problem in problems)
    say(summary_line(errors, len(problems) - errors))
    return DefinitionError.exit_code if errors else 0


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that decide what `check` finds: definitions, and whatever these name."""
    from llm_do_temporal.definitions.registry.registry import worker_files
    from llm_do_temporal.definitions.workers.places import SHIPPED, known_names, places_of
    from llm_do_temporal.extension import definition_files
    from llm_do_temporal.workshop_search import WORKSHOP_FILE

    yield folder / WORKSHOP_FILE
    for files in definition_files():
        yield from files.find(folder)
    for name in known_names(root=folder, shipped=SHIPPED):
        for place in places_of(name, root=folder, shipped=SHIPPED):
            yield from () if place.shipped else worker_files(place)


def _scope(path: Path | None, location: Location) -> tuple[Path, str | None]:
    """Return the workshop to check and the name of one file in it; None stands for all files."""
    if path is None:
        return location.find_workshop(), None
    if not path.exists():
        raise UsageError(f"there is no file or folder '{path}'; name a workshop's folder or a file of it")
    if path.is_dir():
        return replace(location, workshop=path).find_workshop(), None
    from llm_do_temporal.definitions.workshop import find_workshop

    folder = find_workshop(path.parent)
    return folder, path.resolve().relative_to(folder).as_posix()


if TYPE_CHECKING:
    SchemaKind = str
else:
    SchemaKind = Literal[("worker", "workshop", *(one.kind for one in definition_files()))]


def schema(kind: SchemaKind, /) -> None:
    """Print the JSON Schema of a kind of file, for editors. Made of what reads the file, so `check` agrees with it.

    Parameters
    ----------
    kind
        Kind of file: a worker's keys, workshop.yaml, or an evaluation file.
    """
    from llm_do_temporal.definitions.schemas.published import published_json

    print(published_json(kind), end="")


def models(name: str | None = None, /, *, json: bool = False, location: Location = HERE) -> None:
    """List the model and the aliases of the workshop; given a part of a name, also the models that have it.

    Parameters
    ----------
    name
        Part of a name, like `claude` or `openai:`. Models that are not listed can be used, too.
    json
        Print one object.
    """
    found = _of_workshop(location, needed=name is None)
    known = None if name is None else [one for one in _known() if name.lower() in one.lower()]
    if json:
        print_json(found | ({} if known is None else {"known": known}), pretty=False)
        return
    rows = [[one["name"], one["model"], one["base_url"] or "", one["api_key_env"] or ""] for one in found["aliases"]]
    if name is not None:
        rows = [row for row in rows if name.lower() in " ".join(row[:2]).lower()]
    rows += [["", one, "", ""] for one in known or ()]
    if found["model"] is not None and name is None:
        say(f"the workshop's model: {found['model']}")
    if rows:
        print_table(["ALIAS", "MODEL", "AT", "KEY IN"], rows)
    else:
        say("no aliases" if name is None else f"no model's name contains '{name}'; it may exist all the same")


def _of_workshop(location: Location, *, needed: bool) -> dict[str, Any]:
    from llm_do_temporal.definitions.workshop import load_workshop

    workshop = location.local_workshop()
    if workshop is None:
        if needed:
            raise UsageError(
                "no workshop is known here, and no model was asked for",
                next_step=f"Go to the workshop's folder, or give a part of a name, like `{PROGRAM} models claude`.",
            )
        return {"model": None, "aliases": []}
    config = load_workshop(workshop).config
    return {"model": config.model, "aliases": [_alias(name, one) for name, one in config.models.items()]}


def _alias(name: str, alias: ModelAlias) -> dict[str, Any]:
    return {"name": name, "model": alias.model, "base_url": alias.base_url, "api_key_env": alias.api_key_env}


def _known() -> list[str]:
    """Return the names of all known models. Loads Pydantic AI, which takes a second or two."""
    from pydantic_ai.models import known_model_names

    from llm_do_temporal.policy.models import OFFLINE_MODELS, OFFLINE_PROVIDER

    return sorted({*known_model_names(), *(f"{OFFLINE_PROVIDER}:{name}" for name in OFFLINE_MODELS)})
