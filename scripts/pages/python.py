"""Writes docs/reference/python.md: every public name of the package with its signature and the first of its docstring.

Run it after a change of a public name; `check_docs` compares.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from llm_do_temporal.extension import added_names
from scripts.pages.docstrings import assigned, first_paragraph

PAGE = Path("docs/reference/python.md")
MODULES = {
    "llm_do_temporal": "the way in for programs and tools",
    "llm_do_temporal.tools": "for `tools.py`",
    "llm_do_temporal.types": "types for annotations of tools",
    "llm_do_temporal.args": "for classes of typed input",
    "llm_do_temporal.testing": "scripted models, for tests of your own workshops",
    "llm_do_temporal.client": "everything that can be done to runs",
    "llm_do_temporal.remote": "runs through the [HTTP door](../how-to/http.md), with a token and no Temporal",
    "llm_do_temporal.service": "the worker service inside a process of your own",
}
WITH_METHODS = {
    "CallerContext": "llm_do_temporal",
    "LlmDoClient": "llm_do_temporal.client",
    "RemoteClient": "llm_do_temporal.remote",
    "Review": "llm_do_temporal.client",
    "ReviewChoice": "llm_do_temporal.client",
    "TemplateCall": "llm_do_temporal",
    "ToolContext": "llm_do_temporal.tools",
}
"""The classes whose methods are on the page, with the module below which they stand."""

_INTRODUCTION = """\
# Python

<!-- Written by scripts/pages/python.py from the package itself; change its docstrings, and run it again. -->

All that can be imported from these modules stays importable from them; other modules are the project's own. How the
names are used: [from Python](../how-to/python.md), and [in Python tools](../how-to/python-tools.md). Errors have
[a page of their own](errors.md). A name that stands in two modules is the same in both.
"""


def render() -> str:
    """Return the whole page."""
    return "\n".join([_INTRODUCTION, *(_module(name, meaning) for name, meaning in MODULES.items())])


def _module(name: str, meaning: str) -> str:
    module = import_module(name)
    rows = [row for public in sorted(module.__all__, key=str.casefold) for row in _rows(module, public)]
    return f"## {name}\n\nFor import: {meaning}.\n\n| name | meaning |\n|---|---|\n" + "".join(rows)


def _rows(module: ModuleType, name: str) -> Iterator[str]:
    """Yield the row of a name, and of each method where the name is in `WITH_METHODS`."""
    value = getattr(module, name)
    yield _row(f"`{name}{_signature(value)}`", _docstring(module, name, value))
    if name in WITH_METHODS and module.__name__ == WITH_METHODS[name]:
        added = {one: getattr(import_module(home), one) for one, home in added_names(name).items()}
        methods: Mapping[str, Any] = {**value.__dict__, **added}
        for method, function in methods.items():
            if inspect.isfunction(function) and not method.startswith("_"):
                yield _row(f"&emsp;`.{method}{_signature(function, is_method=True)}`", function.__doc__ or "")


def _row(name: str, docstring: str) -> str:
    first = first_paragraph(docstring)
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0]
    return f"| {name} | {sentence.replace('|', chr(92) + '|')} |\n"


def _docstring(module: ModuleType, name: str, value: Any) -> str:
    """Return the docstring of a class or function, or the text below the assignment of anything else."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__doc__ or ""
    homes = (import_module(getattr(value, "__module__", module.__name__)), module)
    found = (assigned(ast.parse(inspect.getsource(home)).body).get(name) for home in homes)
    return next(filter(None, found), "")


def _signature(value: Any, *, is_method: bool = False) -> str:
    """Return the parameters of a function by their names, the optional ones with `=…`; nothing for anything else."""
    if not inspect.isfunction(value):
        return ""
    parts: list[str] = []
    for parameter in [*inspect.signature(value).parameters.values()][is_method:]:
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(star + parameter.name + ("=…" if parameter.default is not inspect.Parameter.empty else ""))
    return f"({', '.join(parts)})"


if __name__ == "__main__":
    (Path(sys.argv[1] if len(sys.argv) > 1 else ".") / PAGE).write_text(render(), encoding="utf-8")
