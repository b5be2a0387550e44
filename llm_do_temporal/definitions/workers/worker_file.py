"""Worker file: taken apart, its keys validated, every mistake collected.

Keys that need other files (included text, classes, delegates) are not checked here.
A template file is taken apart as the worker that it becomes. Runs no Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Annotated, Any, cast

from pydantic import Field, StringConstraints

from llm_do_temporal.definitions.keys.files import WorkerFile
from llm_do_temporal.definitions.keys.toolsets import DelegationOptions
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX, SHIPPED, TOOLS_FILE, WorkerPlace, has_function
from llm_do_temporal.definitions.yaml.documents import (
    Document,
    KeyPath,
    Problem,
    Severity,
    Unreadable,
    decode,
    parse_yaml,
    raise_first,
    read_bytes,
    validate,
)
from llm_do_temporal.errors import DefinitionError, EffectFailed, SandboxRefusal
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.delegation import (
    MAX_WORKER_NAME_CHARS,
    PACKAGE,
    RESERVED_NAMES,
    TEMPLATE_SUFFIXES,
    TemplateRules,
    check_name,
    template_problems,
    worker_name,
)
from llm_do_temporal.policy.files.sandbox import NO_FILES, Tree, WorkerSandbox, WorkshopSandbox, narrow, root_tree

_DEFS = "#/$defs/"


def check_output_schema(schema: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Return the problems of a schema for a worker's result, each as the path in the schema and a message."""
    # Imported here: most workers have no schema, and the import takes as long as everything else together.
    from llm_do_temporal.json_schema import find_schema_problems

    problems: list[tuple[KeyPath, str]] = [
        (path, f"not valid JSON Schema {message}" if path else f"not valid JSON Schema: {message}")
        for path, message in find_schema_problems(schema)
    ]
    if not problems and schema.get("type") != "object" and "$ref" not in schema:
        problems.append((("type",), "the type of a result must be 'object'"))
    return problems or [*_reference_problems(schema), *_impossible_choices(schema, ())]


def _reference_problems(schema: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield references that lead nowhere or in circles: models are given schemas with all references inlined."""
    raw = schema.get("$defs")
    definitions = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    graph: dict[str, set[str]] = {"": set(), **{name: set() for name in definitions}}
    for path, target in _references(cast("Any", schema), ()):
        name = target.removeprefix(_DEFS)
        if not target.startswith(_DEFS) or name not in definitions:
            yield path, f"'$ref: {target}' leads nowhere; a reference is '{_DEFS}NAME' with NAME under '$defs'"
            return
        graph[str(path[1]) if path[0] == "$defs" and len(path) > 2 else ""].add(name)
    for name in definitions:
        reached, pending = set[str](), [*graph[name]]
        while pending:
            one = pending.pop()
            if one not in reached:
                reached.add(one)
                pending += graph[one]
        if name in reached:
            yield ("$defs", name), f"'{name}' refers to itself; a recursive schema cannot describe a result"


def _impossible_choices(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield values of `enum` and `const` that the type beside them excludes: no answer can ever be one of them."""
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        given = schema.get("type")
        types = [given] if isinstance(given, str) else _listed(given)
        choices = [("enum", one) for one in _listed(schema.get("enum"))]
        choices += [("const", schema["const"])] if "const" in schema else []
        for key, value in choices if types and "properties" not in path[-1:] else []:
            # Null among others is only left over; a model is not misled by it.
            if value is not None and not _types_of(value) & set(map(str, types)):
                said = json.dumps(value, ensure_ascii=False)[:60]
                yield (*path, key), f"'{key}' has {said}, which is not of type {' or '.join(map(str, types))}"
        for key, value in schema.items():
            if key not in ("enum", "const", "default", "examples"):
                yield from _impossible_choices(value, (*path, key))
    else:
        for place, item in enumerate(_listed(node)):
            yield from _impossible_choices(item, (*path, place))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _types_of(value: Any) -> set[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"number", "integer"} if float(value).is_integer() else {"number"}
    return {{"bool": "boolean", "str": "string", "list": "array"}.get(type(value).__name__, "object")}


def _references(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str):
                yield (*path, key), value
            else:
                yield from _references(value, (*path, key))
    for place, item in enumerate(_listed(node)):
        yield from _references(item, (*path, place))


SEPARATOR = "---"
_FUNCTION_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_WORKER_NAME_CHARS - 1}}}")
_SHAPE = "A worker file is keys such as `description:`, a line `---`, and the instructions below it."


@dataclass(frozen=True)
class ParsedWorker:
    """Worker file that was read; keys with mistakes have their defaults in `definition`."""

    place: WorkerPlace
    sha256: str
    definition: WorkerFile
    document: Document
    text: str
    """Instructions as they stand in the file."""
    text_line: int
    """Line on which the instructions begin."""
    problems: tuple[Problem, ...]

    @property
    def is_valid(self) -> bool:
        """Whether nothing in the file is an error."""
        return not any(problem.severity == "error" for problem in self.problems)

    def problem_at(
        self, path: KeyPath, message: str, severity: Severity = "error", *, next_step: str | None = None
    ) -> Problem:
        """Return a problem at the line of a key."""
        return Problem(self.place.label, self.document.line_of(path), message, severity, next_step)


def read_worker(place: WorkerPlace) -> ParsedWorker:
    """Read and take apart the file at `place`; its mistakes are in the result."""
    try:
        content = read_bytes(place.path, place.root)
        text = decode(content, place.label)
    except Unreadable as error:
        return ParsedWorker(place, "", WorkerFile(), Document(None), "", 1, (Problem(place.label, None, str(error)),))
    return parse_worker(text, place, sha256=hashlib.sha256(content).hexdigest())


@lru_cache(maxsize=128)
def parse_worker(text: str, place: WorkerPlace, *, sha256: str) -> ParsedWorker:
    """Take the text of a worker file apart; the same text is not taken apart again."""
    front, body, body_line = split_front_matter(text) if place.path.suffix == ".worker" else (text, None, 1)
    document, problems = parse_yaml(front, file=place.label)
    has_keys = isinstance(document.value, dict) or (document.value is None and not problems)
    definition, invalid = validate(WorkerFile, document, file=place.label)
    problems += invalid
    if not has_keys and body is None:
        problems = [replace(one, next_step=f"{one.next_step or ''} {_SHAPE}".lstrip()) for one in problems]
    if body is None:
        body, body_line = definition.instructions or "", document.text_lines.get(("instructions",), 1)
    parsed = ParsedWorker(place, sha256, definition, document, body, body_line, ())
    if has_keys:
        problems += own_problems(parsed)
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    return replace(parsed, problems=tuple(ordered))


def split_front_matter(text: str) -> tuple[str, str | None, int]:
    """Return front matter (as many lines down as in the file), body or None, and the line on which the body begins.

    A first line `---` is optional. A body without any text is none.
    """
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    start = first + 1 if lines[first].rstrip() == SEPARATOR else 0
    end = next((number for number in range(start, len(lines)) if lines[number].rstrip() == SEPARATOR), None)
    front = "\n" * start + "\n".join(lines[start:end])
    if end is None:
        return front, None, 1
    body = "\n".join(lines[end + 1 :])
    return front, body if body.strip() else None, end + 2


def own_problems(parsed: ParsedWorker) -> list[Problem]:
    """Return the mistakes that the types of the keys do not show."""
    found = [*_name_problems(parsed), *_tool_problems(parsed), *_sandbox_problems(parsed)]
    definition = parsed.definition
    if definition.output_schema is not None and definition.output_schema_ref is not None:
        found.append(
            parsed.problem_at(("output_schema_ref",), "'output_schema' and 'output_schema_ref' are both given")
        )
    if definition.output_schema is not None:
        for path, message in check_output_schema(definition.output_schema):
            found.append(parsed.problem_at(("output_schema", *path), f"'output_schema': {message}"))
    wrote_some = isinstance(parsed.document.value, dict) and "instructions" in cast(
        "dict[str, Any]", parsed.document.value
    )
    if not parsed.text.strip() and not (wrote_some and definition.instructions is None):
        found.append(parsed.problem_at(("instructions",), "there are no instructions", next_step=_SHAPE))
    return found


def _name_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    expected = parsed.place.name
    try:
        check_name(expected)
    except DefinitionError as error:
        yield Problem(parsed.place.label, None, error.problem, next_step="Rename the file.")
        return
    name = parsed.definition.name
    if name is not None and name != expected:
        yield parsed.problem_at(
            ("name",), f"name '{name[:80]}' is not what the file is called; write '{expected}', or leave it out"
        )


def _tool_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Yield a problem for each name of a worker, template or function that none can have."""
    options = parsed.definition.toolsets.delegation_options or DelegationOptions()
    here: KeyPath = ("toolsets", "delegation")
    allowed = ", ".join(sorted(DelegationOptions.model_fields))
    for path, message in template_problems(options.templates or TemplateRules()):
        yield parsed.problem_at((*here, "templates", *path), message)
    for name in options.delegates:
        if name in RESERVED_NAMES:
            yield parsed.problem_at(
                (*here, name),
                f"unknown key '{name}' in 'toolsets.delegation'; allowed: {allowed}, names of workers",
            )
        else:
            yield from _bad_name(parsed, name, (*here, name))
    for number, name in enumerate(options.allow_workers or ()):
        if name != "*":
            yield from _bad_name(parsed, name.removeprefix(PACKAGE_PREFIX), (*here, "allow_workers", number))
    for name in parsed.definition.toolsets.python_tools:
        here = ("toolsets", "custom", name)
        if not _FUNCTION_NAME.fullmatch(name):
            yield parsed.problem_at(
                here,
                f"'{name[:80]}' cannot be the name of a tool; a function's name here is a letter followed by letters, "
                f"digits or '_', at most {MAX_WORKER_NAME_CHARS} characters",
            )
        elif name in RESERVED_NAMES:
            yield parsed.problem_at(here, f"tool name '{name}' is reserved; call the function something else")
        elif name in options.delegates:
            message = f"the tool '{name}' stands in both 'toolsets.delegation' and 'toolsets.custom'; rename one"
            yield parsed.problem_at(here, message)


def _bad_name(parsed: ParsedWorker, name: str, path: KeyPath) -> Iterator[Problem]:
    try:
        check_name(name)
    except DefinitionError as error:
        yield parsed.problem_at(path, error.problem)


def _sandbox_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Yield a problem for each path that no files of a caller could make valid, and a warning for the older form."""
    sandbox = parsed.definition.sandbox
    if sandbox is None:
        return
    if sandbox.restrict is not None:
        everything = root_tree(WorkshopSandbox(root="."))
        asked = WorkerSandbox(restrict=sandbox.restrict)
        yield from _refused(parsed, everything, asked, ("sandbox", "restrict"))
    for name, named in (sandbox.paths or {}).items():
        here: KeyPath = ("sandbox", "paths", name)
        if name in ("", ".", "..") or not set(name).isdisjoint("/:\0"):
            yield parsed.problem_at(here, f"'{name}' cannot be the name of a path; it is one word without '/' or ':'")
        else:
            yield from _refused(parsed, NO_FILES, WorkerSandbox(paths={name: named}), (*here, "root"))
    if sandbox.paths is not None:
        roots = [named.root.removeprefix("./").strip("/") for named in sandbox.paths.values()]
        restrict = f"/{roots[0]}" if len(roots) == 1 and roots[0] not in ("", ".") else "/folder"
        message = (
            "'sandbox.paths' is deprecated; write `sandbox: {root: .}` in workshop.yaml and, to narrow it, "
            f"`sandbox: {{restrict: {restrict}}}` here"
        )
        yield parsed.problem_at(("sandbox", "paths"), message, "warning")


def _refused(parsed: ParsedWorker, tree: Tree, asked: WorkerSandbox, path: KeyPath) -> Iterator[Problem]:
    try:
        narrow(tree, asked, workshop_has_sandbox=asked.paths is None)
    except SandboxRefusal as refusal:
        yield parsed.problem_at(path, refusal.message)


SHIPPED_TEMPLATES = "templates"
_SPELLINGS = {"system": "instructions", "schema_object": "output_schema"}
"""Keys that templates may have instead of a worker's."""
_IGNORED = ("functions",)
_REFUSED = ("schema_in_ref", "locked", "attachments")
"""Keys of workers that have no meaning in a template."""
_DOLLAR = "Write '$$' for a dollar sign."
ParameterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class TemplateKeys(Strict):
    """Keys that templates have and workers do not."""

    prompt: str = ""
    params: dict[ParameterName, str | int | float | bool] = Field(default_factory=dict)
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParsedTemplate:
    """A template file that was read."""

    parsed: ParsedWorker
    prompt: str
    """Key `prompt`: text for the model with `$input` in it, or to stand before the input."""
    defaults: dict[str, str]
    """Key `params`: values where a call gives none. Values without a place in a text are listed below the input."""


def template_place(name: str, root: Path) -> WorkerPlace:
    """Return the file of the template `name` (normalised). Raises EffectFailed where there is none."""
    shipped = name.startswith(PACKAGE)
    base = SHIPPED.resolve() if shipped else root
    path = template_path(name, base)
    if path is None:
        raise EffectFailed(f"there is no template '{name}'")
    return WorkerPlace(worker_name(name), path, base, shipped=shipped, template=True)


def template_path(name: str, base: Path) -> Path | None:
    """Return the file of a template below `base`; None where there is none."""
    stem = f"{SHIPPED_TEMPLATES}/{name.removeprefix(PACKAGE)}"
    shipped = name.startswith(PACKAGE)
    paths = [base / f"{stem}{suffix}" for suffix in TEMPLATE_SUFFIXES] if shipped else [base / name]
    return next((one for one in paths if one.is_file()), None)


def parse_template(place: WorkerPlace, name: str) -> ParsedTemplate:
    """Return the template at `place` as the worker it becomes, unfilled, with its problems.

    Raises DefinitionError for a file without keys.
    """
    try:
        content = read_bytes(place.path, place.root)
        text = decode(content, place.label)
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    document, problems = parse_yaml(text, file=place.label)
    if not isinstance(document.value, dict):
        raise_first(problems)
        raise DefinitionError(f"template '{name}' is not a list of keys and values", file=place.label)
    document, keys, found = _as_worker(document, place)
    definition, invalid = validate(WorkerFile, document, file=place.label)
    told = definition.instructions or ""
    parsed = ParsedWorker(place, hashlib.sha256(content).hexdigest(), definition, document, told, 1, ())
    # A template may be all prompt, and is called by its file's name whatever it calls itself.
    own = own_problems(replace(parsed, text=told or keys.prompt))
    own += [
        parsed.problem_at((key,), f"template '{name}' has a '$' that begins no name", next_step=_DOLLAR)
        for key, text in (("instructions", told), ("prompt", keys.prompt))
        if not Template(text).is_valid()
    ]
    ordered = sorted((*problems, *found, *invalid, *own), key=lambda problem: problem.line or 0)
    return ParsedTemplate(replace(parsed, problems=tuple(ordered)), keys.prompt, parameter_texts(keys.params))


def _as_worker(document: Document, place: WorkerPlace) -> tuple[Document, TemplateKeys, list[Problem]]:
    """Return the document with a worker's keys, the keys that only templates have, and the problems found."""
    values = dict(cast("dict[str, Any]", document.value))
    lines: dict[KeyPath, int] = dict(document.lines)
    problems: list[Problem] = []
    for key in (*_IGNORED, *_REFUSED):
        if key in values:
            message, severity = f"'{key}' cannot be set in a template", "error"
            if key in _IGNORED:
                write = f"write functions into {TOOLS_FILE} and name them in `tools:`"
                message, severity = f"'{key}' of a template is ignored; {write}", "warning"
            problems.append(Problem(place.label, document.line_of((key,)), message, severity))
    for key in (*_IGNORED, *_REFUSED, "name"):
        values.pop(key, None)
    own = {key: values.pop(key) for key in TemplateKeys.model_fields if key in values}
    keys, invalid = validate(TemplateKeys, replace(document, value=own), file=place.label)
    problems += invalid
    toolsets, lacking = _named_tools(keys.tools, values.get("toolsets"), document, place)
    problems += lacking
    if toolsets is not None:
        values["toolsets"] = toolsets
    for key, ours in _SPELLINGS.items():
        if key not in values:
            continue
        if ours in values:
            problems.append(Problem(place.label, document.line_of((key,)), f"'{key}' and '{ours}' are both given"))
        values[ours] = values.pop(key)
        lines |= {(ours, *path[1:]): line for path, line in document.lines.items() if path[:1] == (key,)}
    return replace(document, value=values, lines=lines), keys, problems


def _named_tools(
    tools: Sequence[str], toolsets: Any, document: Document, place: WorkerPlace
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the toolsets with the functions of `tools.py` and the classes that `tools` names, and the problems found.

    None stands for toolsets that `tools` does not change.
    """
    found = cast("dict[str, Any]", toolsets or {})
    custom: Any = found.get("custom") if isinstance(toolsets, dict | None) else False
    if not tools or not isinstance(custom, dict | None):
        return None, []
    problems: list[Problem] = []
    found, functions = dict(found), dict(cast("dict[str, Any]", custom or {}))
    for number, name in enumerate(tools):
        if "." in name:
            found.setdefault(name, {})
        elif has_function(name, place):
            functions.setdefault(name, {})
        else:
            message = f"tool '{name[:80]}' is left out: {TOOLS_FILE} has no such function"
            step = "Switch on what is no function under `toolsets:`."
            problems.append(Problem(place.label, document.line_of(("tools", number)), message, "warning", step))
    return found | ({"custom": functions} if functions else {}), problems


def parameter_texts(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of parameters as they are filled in: texts as they are, others as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}
