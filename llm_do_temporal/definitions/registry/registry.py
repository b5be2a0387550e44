"""Registry: workers of a workshop by name, each completed with everything that it needs of other files."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from llm_do_temporal.definitions.keys.files import WorkerFile
from llm_do_temporal.definitions.protection import check_defining
from llm_do_temporal.definitions.registry.classes import has_validators, load_input_schema, load_output_schema
from llm_do_temporal.definitions.tools.external import external_toolsets
from llm_do_temporal.definitions.tools.python_tools import load_python_tools
from llm_do_temporal.definitions.workers.instructions import included_files, instruction_text, render_instructions
from llm_do_temporal.definitions.workers.places import (
    PACKAGE_PREFIX,
    SHIPPED,
    TOOLS_FILE,
    WorkerPlace,
    described_places,
    known_names,
    places_of,
    tools_folders,
)
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop import Workshop
from llm_do_temporal.definitions.yaml.documents import Problem, problem_of, raise_first
from llm_do_temporal.definitions.yaml.text_files import Unreadable, check_inside
from llm_do_temporal.errors import DefinitionError, WorkerNotFound
from llm_do_temporal.messages.definitions import DelegateTool, DelegationToolset, PinnedWorker
from llm_do_temporal.policy.delegation import check_name, is_name


def worker_files(place: WorkerPlace) -> tuple[Path, ...]:
    """Return every path at which a file of the worker at `place` is looked for, its own first.

    Known from the text of the worker's file: nothing is run. Modules that are imported are not among them.
    """
    worker = read_worker(place)
    definition = worker.definition
    found = [place.path, *(place.root / name for name in sorted(included_files(instruction_text(worker))))]
    for reference in (definition.schema_in_ref, definition.output_schema_ref):
        if reference is not None:
            found += _class_files(reference, place)
    if definition.toolsets.python_tools:
        found += [folder / TOOLS_FILE for folder in tools_folders(place)]
    return tuple(dict.fromkeys(found))


def _class_files(reference: str, place: WorkerPlace) -> Iterator[Path]:
    """Yield the paths at which the file of a class is looked for; a class of an importable module has none."""
    file, colon, _ = reference.rpartition(":")
    name = PurePosixPath(file)
    if colon and "\0" not in file and not name.is_absolute() and ".." not in name.parts:
        yield from (place.folder / name, place.root / name)


_SAME = (PinnedWorker.model_fields.keys() & WorkerFile.model_fields.keys()) - {
    "name",
    "instructions",
    "output_schema",
    "server_side_tools",
}
"""Keys of a worker file that are pinned as they are."""


class Registry:
    """The workers of one workshop, read from its files each time they are asked for."""

    def __init__(self, workshop: Workshop, *, shipped: Path = SHIPPED, load_toolsets: bool = False) -> None:
        """`shipped` is the folder of the workers that come with the package; it may be absent.

        With `load_toolsets` the classes of toolsets are loaded, so that a worker's warnings name those that cannot be.
        """
        self._workshop = workshop
        self._load_toolsets = load_toolsets
        self._root = workshop.root.resolve()
        self._shipped = shipped.resolve()

    def names(self) -> list[str]:
        """Return every name that can be loaded, sorted, with those of the shipped workers."""
        return [name for name in known_names(root=self._root, shipped=self._shipped) if is_name(name)]

    def exported(self) -> list[str]:
        """Return the names of the workshop's own workers that say `export: true`, sorted: programs may start them."""
        places = [self.place_of(name) for name in self.names() if not name.startswith(PACKAGE_PREFIX)]
        return [place.name for place in places if not place.shipped and read_worker(place).definition.export]

    def path_of(self, name: str) -> Path:
        """Return the file that defines a worker. Raises WorkerNotFound, or DefinitionError for an unusable file."""
        place = self.place_of(name)
        try:
            check_inside(place.path, place.root)
        except Unreadable as error:
            raise DefinitionError(str(error), file=place.label) from error
        return place.path

    def load(self, name: str, *, run_python: bool = True) -> PinnedWorker:
        """Load the worker `name`, or the shipped worker for `pkg:name`; see `pinned`.

        Raises WorkerNotFound where no file defines it, DefinitionError where the file is wrong.
        """
        return self.pinned(read_worker(self.place_of(name)), run_python=run_python)

    def pinned(self, parsed: ParsedWorker, *, run_python: bool = True) -> PinnedWorker:
        """Complete the parsed worker with everything that it needs of other files. Raises DefinitionError.

        Without `run_python` no Python is run for it, and the result says whether any is left to be loaded.
        """
        check_defining(parsed.place)
        instructions, schema, problems = complete(parsed, run_python=run_python)
        given, invalid = input_of(parsed) if run_python else (None, [])
        python, unusable = load_python_tools(parsed) if run_python else (None, [])
        external, others = external_toolsets(parsed, self._workshop, load=self._load_toolsets and run_python)
        raise_first((*parsed.problems, *problems, *invalid, *unusable, *others))
        definition = parsed.definition
        same = {name: getattr(definition, name) for name in _SAME}
        return PinnedWorker(
            **same,
            name=parsed.place.name,
            source=parsed.place.source,
            sha256=parsed.sha256,
            instructions=instructions,
            output_schema=schema,
            output_ref=_validating(parsed) if run_python else None,
            input_ref=definition.schema_in_ref,
            input_schema=given,
            attachment_paths=definition.attachments,
            filesystem=definition.toolsets.has_filesystem,
            shell=definition.toolsets.shell_policy,
            delegation=self._delegation(parsed, run_python=run_python),
            unloaded=not run_python and self._names_python(parsed),
            python=python,
            external=external,
            server_side_tools=tuple(tool.pinned() for tool in definition.server_side_tools),
            warnings=tuple(str(problem) for problem in (*parsed.problems, *others) if problem.severity == "warning"),
        )

    def place_of(self, name: str) -> WorkerPlace:
        """Return the file that defines a worker, unread. Raises WorkerNotFound, or DefinitionError for a bad name."""
        plain = name.removeprefix(PACKAGE_PREFIX)
        check_name(plain)
        for place in places_of(plain, root=self._root, shipped=self._shipped):
            if place.shipped or plain == name:
                return place
        looked = described_places(plain) if plain == name else "the workers that ship with the package"
        raise WorkerNotFound(f"there is no worker '{name}'; looked for it as {looked}", next_step=self._suggest(plain))

    def _suggest(self, name: str) -> str:
        names = self.names()
        close = get_close_matches(name, names)
        if close:
            return f"Did you mean {' or '.join(repr(one) for one in close)}?"
        if names:
            return f"The workers here are {', '.join(repr(one) for one in names[:20])}."
        return f"Write it to 'workers/{name}.worker'."

    def _names_python(self, parsed: ParsedWorker) -> bool:
        """Return whether Python must run to know the tools and schemas of the worker, or of the workers it may call."""
        definition = parsed.definition
        toolsets, options = definition.toolsets, definition.toolsets.delegation_options
        if definition.output_schema_ref or definition.schema_in_ref or toolsets.python_tools:
            return True
        if any(one.enabled for one in toolsets.classes.values()):
            return True
        return any(self._has_typed_input(name) for name in (options.enabled_delegates if options else ()))

    def _has_typed_input(self, name: str) -> bool:
        try:
            return read_worker(self.place_of(name)).definition.schema_in_ref is not None
        except DefinitionError:
            return False

    def _delegation(self, parsed: ParsedWorker, *, run_python: bool) -> DelegationToolset | None:
        options = parsed.definition.toolsets.delegation_options
        if options is None:
            return None
        return DelegationToolset(
            allow_workers=options.allow_workers,
            tools=tuple(self._delegate(name, run_python=run_python) for name in options.enabled_delegates),
            create=options.creates_workers,
            templates=options.template_rules,
        )

    def _delegate(self, name: str, *, run_python: bool) -> DelegateTool:
        """Return the tool for a callee. Mistakes of a callee are none of the caller: the call will fail and name them.

        The fields come from the class in the callee's `schema_in_ref`, which runs when the caller is loaded: they are
        part of the tools that the caller's author gave its model.
        """
        try:
            callee = read_worker(self.place_of(name))
            check_defining(callee.place)
            given, problems = input_of(callee) if run_python else (None, [])
            raise_first((*callee.problems, *problems))
        except DefinitionError as error:
            return DelegateTool(name=name, description=f"The worker '{name}' could not be loaded: {error.problem}")
        return DelegateTool(
            name=name,
            description=callee.definition.description or f"Call the worker '{name}' to delegate a subtask.",
            takes_attachments=callee.definition.attachment_policy.max_attachments > 0,
            input_schema=given,
        )


def complete(parsed: ParsedWorker, *, run_python: bool = True) -> tuple[str, dict[str, Any] | None, list[Problem]]:
    """Return the worker's rendered instructions, the schema of its result (None without), and the problems found.

    Reads the other files that these need. Without `run_python` a schema that is a class is left out.
    """
    problems: list[Problem] = []
    place, definition = parsed.place, parsed.definition
    instructions = parsed.text.strip()
    if not place.generated and not place.template:
        try:
            instructions = render_instructions(instruction_text(parsed))
        except DefinitionError as error:
            problems.append(problem_of(error, file=place.label))
        else:
            if not instructions and parsed.text.strip():
                problems.append(Problem(place.label, parsed.text_line, "the instructions are empty once rendered"))
    schema = definition.output_schema
    if definition.output_schema_ref is not None and run_python:
        try:
            schema = load_output_schema(definition.output_schema_ref, folder=place.folder, root=place.root)
        except DefinitionError as error:
            problems.append(_schema_problem(parsed, error, "output_schema_ref", definition.output_schema_ref))
    return instructions, schema, problems


def _validating(parsed: ParsedWorker) -> str | None:
    """Return the class of the worker's result where it has validators, else None."""
    reference, place = parsed.definition.output_schema_ref, parsed.place
    if reference is None or not has_validators(reference, folder=place.folder, root=place.root):
        return None
    return reference


def input_of(parsed: ParsedWorker) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the JSON Schema of the worker's input (None without `schema_in_ref`), and the problems of its class."""
    reference, place = parsed.definition.schema_in_ref, parsed.place
    if reference is None:
        return None, []
    try:
        return load_input_schema(reference, folder=place.folder, root=place.root), []
    except DefinitionError as error:
        return None, [_schema_problem(parsed, error, "schema_in_ref", reference)]


def _schema_problem(parsed: ParsedWorker, error: DefinitionError, key: str, reference: str) -> Problem:
    if error.file is None:
        return parsed.problem_at((key,), f"'{key}': {error.problem}", next_step=error.next_step)
    wanted = f"{reference} of worker '{parsed.place.name}'"
    return Problem(error.file, error.line, f"{error.problem} (loading {wanted})")
