"""Worker file: taken apart, its keys validated, every mistake collected.

Keys that need other files (included text, classes, delegates) are not checked here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from llm_do_temporal.definitions.keys.toolsets import DelegationOptions
from llm_do_temporal.definitions.workers.keys import WorkerFile
from llm_do_temporal.definitions.workers.output_schema import check_output_schema
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX, WorkerPlace
from llm_do_temporal.definitions.yaml.lines import Document, KeyPath, parse_yaml
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, read_bytes
from llm_do_temporal.definitions.yaml.validation import validate
from llm_do_temporal.errors import DefinitionError, SandboxRefusal
from llm_do_temporal.policy.delegation import (
    MAX_WORKER_NAME_CHARS,
    RESERVED_NAMES,
    TemplateRules,
    check_name,
    template_problems,
)
from llm_do_temporal.policy.files.sandbox import (
    NO_FILES,
    NamedPath,
    Tree,
    WorkerSandbox,
    WorkshopSandbox,
    narrow,
    root_tree,
)

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

    def problem_at(self, path: KeyPath, message: str, *, next_step: str | None = None) -> Problem:
        """Return an error at the line of a key."""
        return Problem(self.place.label, self.document.line_of(path), message, next_step=next_step)


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
    found = [*_name_problems(parsed), *_delegation_problems(parsed), *_sandbox_problems(parsed)]
    found += _python_problems(parsed)
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
        where = parsed.document.line_of(("instructions",))
        found.append(Problem(parsed.place.label, where, "there are no instructions", next_step=_SHAPE))
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


def _delegation_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    options = parsed.definition.toolsets.delegation_options
    if options is None:
        return
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


def _python_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Yield a problem for each name of a function that no tool can have."""
    toolsets = parsed.definition.toolsets
    delegates = () if toolsets.delegation_options is None else toolsets.delegation_options.delegates
    for name in toolsets.python_tools:
        here: KeyPath = ("toolsets", "custom", name)
        if not _FUNCTION_NAME.fullmatch(name):
            yield parsed.problem_at(
                here,
                f"'{name[:80]}' cannot be the name of a tool; a function's name here is a letter followed by letters, "
                f"digits or '_', at most {MAX_WORKER_NAME_CHARS} characters",
            )
        elif name in RESERVED_NAMES:
            yield parsed.problem_at(here, f"tool name '{name}' is reserved; call the function something else")
        elif name in delegates:
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
        line = parsed.document.line_of(("sandbox", "paths"))
        yield Problem(parsed.place.label, line, _deprecation(sandbox.paths), "warning")


def _refused(parsed: ParsedWorker, tree: Tree, asked: WorkerSandbox, path: KeyPath) -> Iterator[Problem]:
    try:
        narrow(tree, asked, workshop_has_sandbox=asked.paths is None)
    except SandboxRefusal as refusal:
        yield parsed.problem_at(path, refusal.message)


def _deprecation(paths: dict[str, NamedPath]) -> str:
    roots = [named.root.removeprefix("./").strip("/") for named in paths.values()]
    restrict = f"/{roots[0]}" if len(roots) == 1 and roots[0] not in ("", ".") else "/folder"
    return (
        "'sandbox.paths' is deprecated; write `sandbox: {root: .}` in workshop.yaml and, to narrow it, "
        f"`sandbox: {{restrict: {restrict}}}` here"
    )
