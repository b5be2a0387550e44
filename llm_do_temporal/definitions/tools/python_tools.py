"""The `custom` toolset: functions of `tools.py`, found, read and pinned when their worker is loaded.

Reading a `tools.py` runs it. The functions themselves are called elsewhere: plain functions by an activity, functions
with a context by workflow code, from the text that is pinned here.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.tools.authors_code import (
    PythonFile,
    authors_code,
    digest_with_imports,
    forget_changed,
    importable,
    imported_files,
    load_python,
    read_python,
)
from llm_do_temporal.definitions.tools.python_functions import PythonFunction, read_function
from llm_do_temporal.definitions.workers.places import (
    PACKAGE_PREFIX,
    SHIPPED,
    TOOLS_FILE,
    WorkerPlace,
    tools_files,
    tools_folders,
)
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.yaml.documents import Problem, Unreadable, check_inside, find_file, label_of
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.definitions import PythonTool, PythonToolset
from llm_do_temporal.messages.sizes import MAX_PINNED_BYTES


def load_python_tools(parsed: ParsedWorker) -> tuple[PythonToolset | None, list[Problem]]:
    """Return the Python tools that a worker names (None where it names none), and their problems."""
    wanted = parsed.definition.toolsets.python_tools
    tools: list[PythonTool] = []
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for name, options in wanted.items():
        try:
            # Names of the module, signatures and defaults run the author's code as well.
            with authors_code(None, parsed.place.root):
                function, file = _find(name, parsed.place)
                tools.append(
                    PythonTool(
                        name=name,
                        description=options.description or function.description or f"The function '{name}'.",
                        parameters=function.schema,
                        kind="context" if function.context else "plain",
                        idempotent=function.idempotent,
                        source=f"{PACKAGE_PREFIX}{file.label}" if parsed.place.shipped else file.label,
                        sha256=file.sha256,
                        ruling=options.policy.ruling,
                        capabilities=options.capabilities,
                    )
                )
        except DefinitionError as error:
            problem = parsed.problem_at(("toolsets", "custom", name), error.problem, next_step=error.next_step)
            if error.file is not None:
                words = f"{error.problem} (for the tool '{name}' of worker '{parsed.place.name}')"
                problem = replace(problem, file=error.file, line=error.line, message=words)
            problems.append(problem)
            continue
        if function.context:
            sources[file.sha256] = file.text
    return (PythonToolset(tools=tuple(tools), sources=sources) if wanted else None), problems


def read_source(source: str, *, root: Path) -> PythonFile:
    """Read the file that a pinned tool is from, as it is now. Raises DefinitionError."""
    folder = SHIPPED if source.startswith(PACKAGE_PREFIX) else root
    try:
        return read_python(find_file(source.removeprefix(PACKAGE_PREFIX), (folder,), folder), folder)
    except Unreadable as error:
        raise DefinitionError(str(error)) from error


def load_function(file: PythonFile, name: str) -> PythonFunction:
    """Return a function of a file. Raises DefinitionError, with file and line where the mistake is the author's."""
    with authors_code(file.path, file.root):
        module = load_python(file)
        if not hasattr(module, name):
            raise DefinitionError(f"'{file.label}' has no function '{name}'")
        return _read(module, name, file)


def load_callable(file: PythonFile, name: str) -> Callable[..., Any]:
    """Return a function of a file, with the modules that it imports as they are now. Raises DefinitionError."""
    imported = imported_files(file)
    with importable(file.root):
        forget_changed(imported)
        found = getattr(load_python(file, digest_with_imports(file, imported)), name, None)
    if not callable(found):
        raise DefinitionError(f"'{file.label}' has no function '{name}'")
    return cast("Callable[..., Any]", found)


def _find(name: str, place: WorkerPlace) -> tuple[PythonFunction, PythonFile]:
    """Return the function of this name, and its file: the nearest `tools.py` that has it."""
    looked: list[str] = []
    for path in tools_files(place):
        try:
            check_inside(path, place.root)
        except Unreadable as error:
            raise DefinitionError(str(error)) from error
        file = read_python(path, place.root)
        module = load_python(file)
        if hasattr(module, name):
            return _read(module, name, file), file
        looked.append(f"'{file.label}'")
    if looked:
        raise DefinitionError(f"there is no function '{name}' in {' or '.join(looked)}")
    folders = dict.fromkeys(label_of(folder, place.root) for folder in tools_folders(place))
    described = " or ".join(f"'{folder}/{TOOLS_FILE}'" if folder != "." else f"'{TOOLS_FILE}'" for folder in folders)
    raise DefinitionError(f"there is no {TOOLS_FILE} with '{name}'", next_step=f"Write it to {described}.")


def _read(module: ModuleType, name: str, file: PythonFile) -> PythonFunction:
    found = getattr(module, name)
    try:
        function = _read_once(module, name)
        function.schema  # noqa: B018 - raises where an argument has none
        if function.context:
            _check_pinnable(module, function, file)
    except DefinitionError as error:
        code = getattr(found, "__code__", None)
        is_here = getattr(code, "co_filename", None) == str(file.path)
        line = error.line or (getattr(code, "co_firstlineno", None) if is_here else None)
        raise DefinitionError(error.problem, file=file.label, line=line, next_step=error.next_step) from error
    return function


@lru_cache(maxsize=512)
def _read_once(module: ModuleType, name: str) -> PythonFunction:
    """Read a function of a module. A module belongs to the text of its file, so that an edited file is read anew."""
    return read_function(name, getattr(module, name))


def _check_pinnable(module: ModuleType, function: PythonFunction, file: PythonFile) -> None:
    """Raise DefinitionError where the function needs more of the workshop than the text of its own file."""
    if function.call.__module__ != module.__name__:
        raise DefinitionError(f"'{function.name}' takes a context, so it has to be written in this file itself")
    size = len(file.text.encode())
    if size > MAX_PINNED_BYTES:
        raise DefinitionError(
            f"the file has {size} bytes; with a @tool_context function it may have {MAX_PINNED_BYTES}",
            next_step=f"Move other code out of {TOOLS_FILE}.",
        )
    with importable(file.root):
        for node in ast.walk(parse_python(file.text)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module] if isinstance(node, ast.ImportFrom) and node.module and node.level == 0 else []
            for name in (one.partition(".")[0] for one in named):
                if _is_own(name, file.root):
                    raise DefinitionError(
                        f"it imports '{name}' of the workshop; a file with a @tool_context function is pinned alone",
                        file=file.label,
                        line=getattr(node, "lineno", None),
                        next_step="Import installed packages only, or put plain functions into another tools.py.",
                    )


def _is_own(name: str, root: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    origin = [spec.origin] if spec.has_location and spec.origin else []
    return any(Path(place).is_relative_to(root) for place in (*origin, *(spec.submodule_search_locations or ())))
