"""External toolsets, as a worker's file names them: found, pinned, and their problems.

A toolset that cannot be loaded is a warning: the worker runs without its tools. A name that can be no toolset at all is
an error, because no later installation would make it one. Loading a class runs the author's Python.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.keys.toolsets import Toolsets
from llm_do_temporal.definitions.tools.authors_code import authors_code, import_python
from llm_do_temporal.definitions.workers.places import SHIPPED, known_names
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.workshop import Workshop
from llm_do_temporal.definitions.yaml.documents import KeyPath, Problem, did_you_mean
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.definitions import ExternalToolset

MCP_STEP = "Install it where the worker service runs, in the checkout of llm-do-temporal: pip install '.[mcp]'."
_PACKAGE_STEP = "Install its package, or put it into the workshop."
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
CAPABILITIES_METHOD = "get_capabilities"
_METHODS = ("get_tools", "call_tool")
"""Methods that every toolset of Pydantic AI has."""


def external_toolsets(
    parsed: ParsedWorker, workshop: Workshop, *, load: bool = True
) -> tuple[tuple[ExternalToolset, ...], list[Problem]]:
    """Return the worker's external toolsets that can be used, and the problems of the others.

    Without `load` no Python is run, and a class that cannot be loaded is no problem.
    """
    config = workshop.config
    found: list[ExternalToolset] = []
    problems: list[Problem] = []
    for name, options in parsed.definition.toolsets.classes.items():
        reference = config.toolset_aliases.get(name, name)
        if not _CLASS_PATH.fullmatch(reference):
            problems.append(_unknown(parsed, name, workshop))
        elif options.enabled:
            try:
                if load:
                    load_toolset_class(reference, root=workshop.root)
            except DefinitionError as error:
                where = "" if error.file is None else f" ({error.file}{'' if error.line is None else f':{error.line}'})"
                why = f"{error.problem}{where}"
                problems.append(_unusable(parsed, ("toolsets", name), why, error.next_step, options.required))
            else:
                found.append(options.pinned(name, reference))
    for name, server in (parsed.definition.toolsets.mcp or {}).items():
        if server.enabled and load and not has_mcp():
            problems.append(_no_mcp(parsed, name, required=server.required))
        elif server.enabled:
            found.append(server.pinned(name))
    return tuple(found), problems


def missing_packages(parsed: ParsedWorker, workshop: Workshop) -> list[Problem]:
    """Return the problems of the worker's external toolsets whose packages are not installed here. No Python is run."""
    toolsets, problems = parsed.definition.toolsets, list[Problem]()
    for name, options in toolsets.classes.items():
        reference = workshop.config.toolset_aliases.get(name, name)
        package = reference.partition(".")[0]
        if not options.enabled or not _CLASS_PATH.fullmatch(reference):
            continue
        own = (workshop.root / package, workshop.root / f"{package}.py")
        if find_spec(package) is None and not any(path.exists() for path in own):
            why = f"there is no module '{package}'"
            problems.append(_unusable(parsed, ("toolsets", name), why, _PACKAGE_STEP, options.required))
    for name, server in (toolsets.mcp or {}).items():
        if server.enabled and not has_mcp():
            problems.append(_no_mcp(parsed, name, required=server.required))
    return problems


def load_toolset_class(reference: str, *, root: Path) -> type[Any]:
    """Return the class at a path like `package.module.Class`, the workshop's own packages included.

    Raises DefinitionError where there is no such class, or it is no toolset.
    """
    where, _, name = reference.rpartition(".")
    try:
        module = import_python(where, root=root)
    except ModuleNotFoundError as error:
        missing = error.name or where
        of = "" if where == missing or where.startswith(f"{missing}.") else f", which '{where}' imports"
        raise DefinitionError(f"there is no module '{missing}'{of}", next_step=_PACKAGE_STEP) from error
    with authors_code(None, root):
        found = getattr(module, name, None)
    if found is None:
        raise DefinitionError(f"'{where}' has no class '{name}'")
    if not isinstance(found, type) or not all(callable(getattr(found, method, None)) for method in _METHODS):
        raise DefinitionError(f"'{reference}' is not a toolset: a class with {' and '.join(_METHODS)}")
    return found


def may_name_capabilities(parsed: ParsedWorker, workshop: Workshop, *, load: bool = True) -> bool:
    """Return whether a toolset of the worker names its calls' capabilities itself; unloadable ones count as such.

    Without `load` no class is loaded, and each counts.
    """
    aliases = workshop.config.toolset_aliases
    named = [name for name, options in parsed.definition.toolsets.classes.items() if options.enabled]
    if not load:
        return bool(named)
    try:
        kinds = (load_toolset_class(aliases.get(name, name), root=workshop.root) for name in named)
        return any(hasattr(kind, CAPABILITIES_METHOD) for kind in kinds)
    except DefinitionError:
        return True


def has_mcp() -> bool:
    """Return whether the optional MCP client is installed."""
    return find_spec("mcp") is not None and find_spec("fastmcp") is not None


def _no_mcp(parsed: ParsedWorker, name: str, *, required: bool) -> Problem:
    return _unusable(parsed, ("toolsets", "mcp", name), "MCP support is not installed", MCP_STEP, required)


def _unusable(parsed: ParsedWorker, path: KeyPath, why: str, step: str | None, required: bool) -> Problem:
    if required:
        return parsed.problem_at(path, f"toolset '{path[-1]}' is required and cannot be used: {why}", next_step=step)
    message = f"toolset '{path[-1]}' cannot be used, the worker runs without it: {why}"
    return parsed.problem_at(path, message, "warning", next_step=step)


def _unknown(parsed: ParsedWorker, name: str, workshop: Workshop) -> Problem:
    config = workshop.config
    if name in config.toolset_aliases:
        message = f"toolset '{name}' stands for '{config.toolset_aliases[name]}', which is not package.module.Class"
        return parsed.problem_at(("toolsets", name), message)
    known = [*sorted(Toolsets.model_fields), *config.toolset_aliases]
    step = did_you_mean(name, known)
    if name in known_names(root=workshop.root, shipped=SHIPPED):
        step = f"'{name}' is a worker: to call it, write `delegation: {{{name}: {{}}}}` below `toolsets:`."
    return parsed.problem_at(
        ("toolsets", name),
        f"unknown toolset '{name}' in 'toolsets'; allowed: {', '.join(known)}, "
        "the path of a class like package.module.Class",
        next_step=step,
    )
