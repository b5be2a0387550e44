"""Registry: workers of a workshop by name, each completed with everything that it needs of other files.

Authors' classes run their Python when they are loaded: every failure there is a DefinitionError; a value that does not
fit the class of an input is an EffectFailed, which the caller's model is told. A template's text is never rendered by
Jinja2: a model may have written it. A worker that a model creates is a file of keys alone, with the instructions as a
YAML text; `save_worker` writes it after a person has seen the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path, PurePath, PurePosixPath
from string import Template
from typing import Any, cast

import yaml
from pydantic import BaseModel, ValidationError

from llm_do_temporal.args import AttachmentPath
from llm_do_temporal.definitions.protection import check_defining
from llm_do_temporal.definitions.tools.authors_code import authors_code, import_python, load_python, read_python
from llm_do_temporal.definitions.tools.external import external_toolsets
from llm_do_temporal.definitions.tools.python_functions import misfits
from llm_do_temporal.definitions.tools.python_tools import load_python_tools
from llm_do_temporal.definitions.workers.instructions import included_files, instruction_text, render_instructions
from llm_do_temporal.definitions.workers.places import (
    GENERATED,
    PACKAGE_PREFIX,
    SHIPPED,
    TOOLS_FILE,
    WorkerPlace,
    described_places,
    is_ignored,
    known_names,
    places_of,
    tools_folders,
)
from llm_do_temporal.definitions.workers.worker_file import (
    ParsedWorker,
    check_output_schema,
    parameter_texts,
    parse_template,
    parse_worker,
    read_worker,
    split_front_matter,
    template_path,
    template_place,
)
from llm_do_temporal.definitions.workshop import Workshop, unknown_models
from llm_do_temporal.definitions.yaml.documents import (
    KeyPath,
    Problem,
    Unreadable,
    find_file,
    label_of,
    problem_of,
    raise_first,
)
from llm_do_temporal.errors import DefinitionError, DelegationRefusal, EffectFailed, UsageError, WorkerNotFound
from llm_do_temporal.extension import needs
from llm_do_temporal.messages.activities import BuiltInput, CheckedOutput, DraftWorkerInput, LoadedTemplate, WorkerDraft
from llm_do_temporal.messages.definitions import (
    CalledTemplate,
    DelegateTool,
    DelegationToolset,
    PinnedWorker,
    WorkerKeys,
)
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.delegation import (
    PACKAGE,
    TEMPLATE_SUFFIXES,
    check_name,
    is_name,
    matches,
    normalise_template,
    template_problems,
)

MAX_DEFINITION_BYTES = 64 * 1024
"""Largest definition. Instructions of this size are a book, and a person has to read them before the worker exists."""
_WIDE = 1 << 30
"""Line width, in characters, that is never reached: no text is broken into lines that it does not have."""


def draft_worker(workshop: Workshop, asked: DraftWorkerInput) -> WorkerDraft:
    """Return the file of the worker that `asked` describes, with the workshop's `creation_defaults`.

    Raises DelegationRefusal for a worker that may not be made, DefinitionError for an invalid name.
    """
    check_name(asked.name)
    defaults = workshop.config.creation_defaults.model_dump(mode="json", exclude_unset=True)
    keys: dict[str, Any] = {"name": asked.name, "description": asked.description.strip(), **defaults}
    if asked.model is not None:
        keys["model"] = asked.model
    if asked.output_schema_ref is not None:
        keys["output_schema_ref"] = _known_reference(workshop.root, asked.output_schema_ref)
    # Instructions are stripped whenever they are loaded.
    keys |= {"locked": False, "instructions": asked.instructions.strip()}
    place = generated_place(asked.name, workshop.root)
    for text in (_as_yaml(keys, blocks=True), _as_yaml(keys, blocks=False)):
        size = len(text.encode("utf-8", "replace"))
        if size > MAX_DEFINITION_BYTES:
            raise DelegationRefusal(
                f"the definition of worker '{asked.name}' would have {size} bytes; at most {MAX_DEFINITION_BYTES} "
                "are accepted",
                next_step="Write shorter instructions; give long texts as input or as files.",
            )
        parsed = parse_worker(text, place, sha256="")
        # Whatever a model wrote must read back as that, to the last character.
        if parsed.document.value == keys and split_front_matter(text)[1] is None:
            check_draft(parsed, workshop)
            return WorkerDraft(source=str(GENERATED / f"{asked.name}.worker"), text=text)
    raise DelegationRefusal(f"the instructions of worker '{asked.name}' hold characters that no file can keep")


def check_draft(parsed: ParsedWorker, workshop: Workshop) -> None:
    """Raise DelegationRefusal unless the worker could be loaded once it is written, and its name is free.

    No Python is run for the check: only a call of the worker needs it.
    """
    _, _, problems = complete(parsed, run_python=False)
    wrong = [problem for problem in (*parsed.problems, *problems) if problem.severity == "error"]
    if wrong:
        raise DelegationRefusal(f"worker '{parsed.place.name}' cannot be made: {wrong[0].message}")
    model = parsed.definition.model
    if model is not None and unknown_models(model, workshop.config):
        aliases = ", ".join(f"'{alias}'" for alias in workshop.config.models) or "none"
        raise DelegationRefusal(
            f"model '{model[:80]}' is neither provider:name nor an alias of the workshop; aliases: {aliases}",
            next_step="Leave `model` out to use the usual one.",
        )
    name = parsed.place.name
    own = generated_place(name, workshop.root).path
    for place in places_of(name, root=workshop.root, shipped=SHIPPED.resolve()):
        existing = read_worker(place)
        if place.path == own and not existing.problems and existing.document.value == parsed.document.value:
            continue
        locked = " and is locked" if existing.definition.locked else ""
        raise DelegationRefusal(
            f"worker '{name}' exists already{locked} ({place.label}); no worker is overwritten",
            next_step="Choose another name, or call the worker that is there.",
        )


def generated_place(name: str, root: Path) -> WorkerPlace:
    """Return the place at which a worker that a model creates is written."""
    return WorkerPlace(name, root / GENERATED / f"{name}.worker", root)


def _known_reference(root: Path, reference: str) -> str:
    """Return the reference in the form that is found from any folder. Raises DelegationRefusal for an unknown one.

    The class must be in use by a worker of an author: it names Python that is going to run, and a model must not choose
    which.
    """
    known = sorted(set(_references(root)))
    found = sorted({full for short, full in known if reference in (short, full)})
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"'{full}'" for full in sorted({full for _, full in known})) or "none"
    problem = "names several files" if found else "is not used by any worker of this workshop"
    raise DelegationRefusal(
        f"output_schema_ref '{reference[:80]}' {problem}; a new worker can have: {listed}",
        next_step="Choose one of these, or leave it out.",
    )


def _references(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every `output_schema_ref` of the workshop's authors: as written, and from the workshop's folder."""
    for name in known_names(root=root, shipped=SHIPPED):
        for place in places_of(name, root=root, shipped=SHIPPED):
            reference = None if place.shipped or place.generated else read_worker(place).definition.output_schema_ref
            if reference is None:
                continue
            file, colon, model = reference.rpartition(":")
            if not colon:
                yield reference, reference
                continue
            try:
                path = find_file(file, (place.folder, root), root)
            except Unreadable:
                continue
            yield reference, f"{label_of(path, root)}:{model}"


def _as_yaml(keys: dict[str, Any], *, blocks: bool) -> str:
    """Return the keys as YAML without aliases: with texts of several lines as they stand, which people can read, or
    with every text in quotes and every unusual character escaped."""

    class Writer(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = ("|" if "\n" in text else None) if blocks else '"'
        return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Writer.add_representer(str, represent)
    return str(yaml.dump(keys, Dumper=Writer, sort_keys=False, allow_unicode=blocks, width=_WIDE))


MAX_PROBLEMS = 8
MAX_PROBLEM_CHARS = 500
_FUNCTIONS = frozenset({"function-before", "function-after", "function-wrap", "function-plain"})
_FORMS = "Write 'schemas.py:Class' for a file of the workshop, or 'module.Class' for an importable module."


def load_output_schema(reference: str, *, folder: Path, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of the pydantic model that `reference` names.

    `folder` is the worker's folder, `root` the folder that files may not leave. Raises DefinitionError; it names a file
    only where the mistake is in the author's Python.
    """
    schema = model_schema(load_model(reference, folder=folder, root=root), root=root)
    problems = check_output_schema(schema)
    if problems:
        raise DefinitionError(f"'{reference}' cannot describe a result: {problems[0][1]}")
    return schema


def has_validators(reference: str, folder: Path, root: Path) -> bool:
    """Return whether the class checks, or changes, values beyond its JSON Schema. Raises DefinitionError."""
    model = load_model(reference, folder=folder, root=root)
    with authors_code(None, root):
        model.model_rebuild()
    waiting: list[object] = [model.__pydantic_core_schema__]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            known = cast("dict[str, object]", node)
            if known.get("type") in _FUNCTIONS or known.get("post_init") is not None:
                return True
            # What a schema is written out with is no part of checking, and `metadata` is no schema.
            waiting.extend(value for key, value in known.items() if key not in ("serialization", "metadata", "cls"))
        elif isinstance(node, list | tuple):
            waiting.extend(cast("list[object]", node))
    return False


def check_output(reference: str, value: Any, *, folder: Path, root: Path) -> CheckedOutput:
    """Return the value that the class makes of a result that fits its schema, or the problems that the class finds.

    Raises DefinitionError for a failure of the author's code.
    """
    model = load_model(reference, folder=folder, root=root)
    try:
        with authors_code(None, root, passing=(ValidationError,)):
            filled = model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        return CheckedOutput(problems=tuple(one[:MAX_PROBLEM_CHARS] for one in misfits(error, MAX_PROBLEMS)))
    with authors_code(None, root):
        return CheckedOutput(value=filled.model_dump(mode="json", by_alias=True))


def model_schema(model: type[BaseModel], *, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of a class of the author's, which may run code for it. Raises DefinitionError."""
    with authors_code(None, root):
        return model.model_json_schema()


def load_model(reference: str, *, folder: Path, root: Path) -> type[BaseModel]:
    """Return the pydantic model that `reference` names; see `load_output_schema`. Runs the author's Python."""
    where, colon, name = reference.rpartition(":" if ":" in reference else ".")
    if not colon:
        raise DefinitionError(f"'{reference}' names no class", next_step=_FORMS)
    if colon == ".":
        with authors_code(None, root):
            try:
                module = import_python(where, root=root)
            except ModuleNotFoundError as error:
                if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
                    raise DefinitionError(f"there is no module '{where}'", next_step=_FORMS) from error
                raise
    elif not where.endswith(".py"):
        raise DefinitionError(f"'{where}' is not a Python file", next_step=_FORMS)
    else:
        try:
            module = load_python(read_python(find_file(where, (folder, root), root), root))
        except Unreadable as error:
            raise DefinitionError(str(error)) from error
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    kinds = {key: value for key, value in vars(module).items() if isinstance(value, type) and value is not BaseModel}
    models = sorted(key for key, value in kinds.items() if issubclass(value, BaseModel))
    listed = f"it has {', '.join(models)}" if models else "it has none"
    what = "is not a pydantic BaseModel" if hasattr(module, name) else "does not exist"
    raise DefinitionError(f"the class '{name}' of '{where}' {what}; of models {listed}")


ATTACHMENTS_FIELD = "attachments"
_PARTS = "input_parts"


def load_input_schema(reference: str, *, folder: Path, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of the class that `reference` names. Raises DefinitionError.

    `folder` is the worker's folder, `root` the folder that files may not leave.
    """
    # Imported here: it takes as long as everything else together, and most workers have no such class.
    from llm_do_temporal.json_schema import check_schema

    schema = model_schema(load_model(reference, folder=folder, root=root), root=root)
    wrong = check_schema(schema)
    if wrong is not None:
        raise DefinitionError(f"'{reference}' cannot describe an input: {wrong}")
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise DefinitionError(
            f"'{reference}' cannot describe an input: it has no fields of its own",
            next_step="Give it at least one field; a model that refers to itself goes into a field of another.",
        )
    if ATTACHMENTS_FIELD in properties:
        raise DefinitionError(
            f"'{reference}' has a field '{ATTACHMENTS_FIELD}', which is what every call has for files",
            next_step="Give the field another name.",
        )
    return schema


def build_input(reference: str, values: Any, place: WorkerPlace) -> BuiltInput:
    """Check `values` against the class of the worker at `place`, and let the class build the prompt where it can.

    Raises EffectFailed for values that do not fit, DefinitionError for a failure of the author's code.
    """
    filled = check_input(reference, values, place)
    with authors_code(None, place.root):
        plain = filled.model_dump(mode="json")
    if not callable(getattr(filled, _PARTS, None)):
        return BuiltInput(values=plain)
    with authors_code(None, place.root):
        parts: Any = cast("Any", filled).input_parts()
    listed = list(cast("list[Any]", parts)) if isinstance(parts, list | tuple) else [parts]
    if not all(isinstance(part, str | PurePath) for part in listed):
        raise DefinitionError(
            f"{_PARTS}() of '{reference}' must return a text, or a list of texts and paths to attach",
            next_step="Write paths as AttachmentPath('input/deck.pdf').",
        )
    files = [part for part in listed if isinstance(part, AttachmentPath | PurePath)]
    texts = [str(part) for part in listed if not isinstance(part, AttachmentPath | PurePath)]
    return BuiltInput(prompt="\n\n".join(texts), values=plain, attachments=tuple(str(file) for file in files))


def check_input(reference: str, values: Any, place: WorkerPlace) -> BaseModel:
    """Return the values as an object of the class that `reference` names. Raises EffectFailed for a misfit."""
    model = load_model(reference, folder=place.folder, root=place.root)
    try:
        with authors_code(None, place.root, passing=(ValidationError,)):
            return model.model_validate_json(json.dumps(values))
    except ValidationError as error:
        needed = ", ".join(name for name, field in model.model_fields.items() if field.is_required()) or "none"
        raise EffectFailed(
            f"the input of worker '{place.name}' is not valid: {'; '.join(misfits(error, MAX_PROBLEMS))[:1000]}",
            next_step=f"Its fields are {', '.join(model.model_fields) or 'none'}; required: {needed}.",
        ) from error


INPUT_NAME = "input"
"""Parameter that stands for the `input` of the call: `$input` in a template's text."""
_RULES = ("toolsets", "delegation", "templates")
_WILDCARD = re.compile(r"[*?\[]")


def load_template(
    registry: Registry, root: Path, name: str, params: Mapping[str, str], given: str, *, run_python: bool = True
) -> LoadedTemplate:
    """Load the template `name` (normalised), with `params` and the input `given` filled in; see `Registry.pinned`.

    Raises DefinitionError for a template with mistakes, EffectFailed for an unknown name or for parameters that do not
    fit.
    """
    read = parse_template(template_place(name, root.resolve()), name)
    worker = registry.pinned(read.parsed, run_python=run_python)
    wanted = {*Template(worker.instructions).get_identifiers(), *Template(read.prompt).get_identifiers()}
    allowed = (wanted | read.defaults.keys()) - {INPUT_NAME}
    unknown, missing = sorted(params.keys() - allowed), sorted(allowed - read.defaults.keys() - params.keys())
    if unknown or missing:
        wrong = [f"it has no parameter {_listed(unknown)}"] if unknown else []
        wrong += [f"it needs {_listed(missing)}"] if missing else []
        raise EffectFailed(
            f"the parameters do not fit template '{name}': {'; '.join(wrong)}",
            next_step=f"Its parameters are {_listed(sorted(allowed))}." if allowed else "It takes no parameters.",
        )
    values = {**read.defaults, **params, INPUT_NAME: given}
    parts = [Template(read.prompt).substitute(values), given if INPUT_NAME not in wanted else ""]
    parts += [f"{key}: {value}" for key, value in values.items() if key not in {*wanted, INPUT_NAME}]
    prompt = "\n\n".join(part for part in parts if part.strip())
    instructions = Template(worker.instructions).substitute(values)
    filled = {key: value for key, value in values.items() if key != INPUT_NAME}
    called = CalledTemplate(name=name, sha256=worker.sha256, params=filled, input=given)
    worker = worker.model_copy(update={"instructions": instructions})
    return LoadedTemplate(worker=worker, prompt=prompt, template=called)


def _template_named(registry: Registry, worker: str) -> str | None:
    """Return the template (normalised) that a run's `worker` names; None for a worker's name. Raises UsageError."""
    if not worker.endswith(TEMPLATE_SUFFIXES):
        if not worker.startswith(PACKAGE) or template_path(worker, SHIPPED) is None:
            return None
        with suppress(WorkerNotFound):
            registry.place_of(worker)
            return None
    try:
        return normalise_template(worker)
    except DelegationRefusal as refusal:
        raise UsageError(refusal.message) from refusal


def load_started(registry: Registry, root: Path, start: StartRunInput) -> tuple[PinnedWorker, LoadedTemplate | None]:
    """Load the entry worker of a run; for a template, return also its loaded form with the values filled in, else None.

    Raises the errors of `Registry.load` and `load_template`, and UsageError for parameters without a template.
    """
    name = _template_named(registry, start.worker)
    if name is None:
        if start.params:
            raise UsageError(f"'params' are for templates, and worker '{start.worker[:80]}' is none")
        return registry.load(start.worker), None
    check_single(name, start)
    given = [start.prompt] if start.input is None else [start.prompt, *parameter_texts({"": start.input}).values()]
    try:
        told = "\n\n".join(part for part in given if part)
        loaded = load_template(registry, root, name, parameter_texts(start.params), told)
    except EffectFailed as error:
        raise UsageError(error.message, next_step=error.next_step) from error
    return loaded.worker, loaded


def check_single(template: str, start: StartRunInput) -> None:
    """Raise UsageError where a template is started for several items: it is filled in once, for a single run."""
    if start.is_batch:
        raise UsageError(
            f"template '{template}' cannot be run for several items",
            next_step="Write a worker that calls it with llm_worker_call, and run that for each of them.",
        )


def named_templates(workers: Iterable[ParsedWorker], root: Path) -> tuple[list[ParsedWorker], list[Problem]]:
    """Return the workshop's templates that workers name, by name or glob, and the problems with these names.

    A glob that begins with a wildcard names no folder, and is not looked at.
    """
    found: dict[str, ParsedWorker] = {}
    problems: list[Problem] = []
    for worker in workers:
        options = worker.definition.toolsets.delegation_options
        rules = options.template_rules if options is not None else None
        patterns = list[tuple[KeyPath, str]]()
        if rules is not None and not template_problems(rules):
            patterns = [(("lock",), rules.lock)] if rules.lock is not None else []
            patterns += [(("allow", number), pattern) for number, pattern in enumerate(rules.allow)]
        for path, pattern in patterns:
            for name in _matching(pattern, root.resolve()):
                try:
                    plain = normalise_template(name)
                    place = template_place(plain, root.resolve())
                    if plain not in found and not place.shipped:
                        found[plain] = parse_template(place, plain).parsed
                except (DelegationRefusal, EffectFailed) as missing:
                    problems.append(worker.problem_at((*_RULES, *path), missing.message))
                except DefinitionError as error:
                    problems.append(problem_of(error, file=name))
    return list(found.values()), problems


def _matching(pattern: str, root: Path) -> Iterator[str]:
    """Yield the names that a pattern stands for: the pattern itself without a wildcard, else the files that match."""
    before, *wild = _WILDCARD.split(pattern, maxsplit=1)
    if not wild:
        yield pattern
        return
    folder = PurePosixPath(before.rpartition("/")[0])
    for path in sorted((root / folder).rglob("*")) if folder.parts else ():
        inside = path.relative_to(root)
        name = inside.as_posix()
        is_template = name.endswith(TEMPLATE_SUFFIXES) and path.is_file() and not is_ignored(inside)
        if is_template and matches(name, pattern):
            yield name


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name[:80]}'" for name in names[:10])


def worker_files(place: WorkerPlace) -> tuple[Path, ...]:
    """Return every path at which a file of the worker at `place` is looked for, its own first.

    Known from the text of the worker's file: nothing is run. Modules that are imported are not among them.
    """
    worker = read_worker(place)
    definition = worker.definition
    found = [place.path, *(place.root / name for name in sorted(included_files(instruction_text(worker))))]
    for reference in (definition.schema_in_ref, definition.output_schema_ref):
        file, colon, _ = (reference or "").rpartition(":")
        name = PurePosixPath(file)
        # A class of an importable module has no file that is looked for.
        if colon and "\0" not in file and not name.is_absolute() and ".." not in name.parts:
            found += [place.folder / name, place.root / name]
    if definition.toolsets.python_tools:
        found += [folder / TOOLS_FILE for folder in tools_folders(place)]
    return tuple(dict.fromkeys(found))


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
        if definition.review is not None:
            needs("review", f"worker '{parsed.place.name}', whose changes are reviewed,")
        same: dict[str, Any] = {name: getattr(definition, name) for name in WorkerKeys.model_fields}
        same["output_schema"] = schema
        reference, place = definition.output_schema_ref, parsed.place
        validates = run_python and reference is not None and has_validators(reference, place.folder, place.root)
        return PinnedWorker(
            **same,
            name=place.name,
            source=place.source,
            sha256=parsed.sha256,
            instructions=instructions,
            output_ref=reference if validates else None,
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
        names, step = self.names(), f"Write it to 'workers/{plain}.worker'."
        close = get_close_matches(plain, names)
        if close:
            step = f"Did you mean {' or '.join(repr(one) for one in close)}?"
        elif names:
            step = f"The workers here are {', '.join(repr(one) for one in names[:20])}."
        raise WorkerNotFound(f"there is no worker '{name}'; looked for it as {looked}", next_step=step)

    def _names_python(self, parsed: ParsedWorker) -> bool:
        """Return whether Python must run to know the tools and schemas of the worker, or of the workers it may call."""
        definition = parsed.definition
        toolsets, options = definition.toolsets, definition.toolsets.delegation_options
        if definition.output_schema_ref or definition.schema_in_ref or toolsets.python_tools:
            return True
        if any(one.enabled for one in toolsets.classes.values()):
            return True
        for name in options.enabled_delegates if options else ():
            with suppress(DefinitionError):
                if read_worker(self.place_of(name)).definition.schema_in_ref is not None:
                    return True
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
