"""Writes docs/reference/errors.md from the classes and the tree of `errors.py`, and the table of the HTTP door.

Run it after a change of an error; `check_docs` compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from llm_do_temporal import errors
from llm_do_temporal.doors.http.requests import PROBLEM_TYPES
from llm_do_temporal.errors import LlmDoError
from scripts.pages.docstrings import first_paragraph

PAGE = Path("docs/reference/errors.md")
_BRANCH = re.compile(r"^ *[│├└─ ]+(?P<name>[A-Z]\w+) +(?P<actor>[^:`]+): ")

_INTRODUCTION = """\
# Errors

<!-- Written by scripts/pages/errors.py from `llm_do_temporal/errors.py`; change that, and run it again. -->

Every error that a person or a model can see is one of these classes. Its name is the `code` of `-o json` and the type
of the failure in Temporal's history; the message says what happened, the name in quotes, what is allowed, and what to
do next. Python raises them from `llm_do_temporal.errors`. An indented error is a kind of the one above it. A command
ends with the exit code of the error it ends with; [the other exit codes](command-line.md#exit-codes) are those of
commands.

| error | meaning | who must act | exit code |
|---|---|---|---|
"""

_END = """
A refusal and a failed effect are results for the model, which goes on from there; where the workshop says
`on_refusal: abort`, a refusal ends the run with `RunAborted`. In a
[`@tool_context` function](../how-to/python-tools.md#custom-python-functions) both are `ToolCallFailed`.
"""


_DOOR = """
## At the HTTP door

A problem of [`/api/v1`](../how-to/http.md) has one of these codes, or that of a kind of it. Any other error has the
status 500: with its own code, or as `LlmDoError` where the server does not know it. What to do is in `next_step`: the
one of this table, unless the error itself says something better.

| status | title | `code` | `next_step` |
|---|---|---|---|
"""


def render() -> str:
    """Return the whole page."""
    kinds = (
        f"| {status} | {title} | {', '.join(f'`{one.__name__}`' for one in raised)} | {step or ''} |\n"
        for status, (title, raised, step) in sorted(PROBLEM_TYPES.items())
    )
    return _INTRODUCTION + "".join(_rows(LlmDoError, "", 0, _actors())) + _END + _DOOR + "".join(kinds)


def _actors() -> dict[str, str]:
    """Return who must act on each class of which the docstring of `errors.py` says it, by the class's name."""
    lines = inspect.cleandoc(errors.__doc__ or "").split("\n")
    return {match["name"]: match["actor"] for line in lines if (match := _BRANCH.match(line)) is not None}


def _rows(parent: type[LlmDoError], actor: str, depth: int, actors: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows below a class in the order of the module; who must act on a class acts on all below it."""
    for cls in parent.__subclasses__():
        if cls.__module__ != errors.__name__:
            continue
        acting = actors.get(cls.__name__, actor)
        meaning = first_paragraph(cls.__doc__)
        yield f"| {'&emsp;' * depth}`{cls.__name__}` | {meaning} | {acting} | {cls.exit_code} |\n"
        yield from _rows(cls, acting, depth + 1, actors)


if __name__ == "__main__":
    (Path(sys.argv[1] if len(sys.argv) > 1 else ".") / PAGE).write_text(render(), encoding="utf-8")
