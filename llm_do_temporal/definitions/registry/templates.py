"""Templates: YAML files that say what a model is told, with `$name` for what a call fills in.

A template becomes a worker like any other. Its text is never rendered by Jinja2: what is filled in was written
by a model, and so may be a template that lies in a folder which workers write to.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from string import Template
from typing import Annotated, Any, cast

from pydantic import Field, StringConstraints

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.tools.python_tools import TOOLS_FILE, has_function
from llm_do_temporal.definitions.workers.places import SHIPPED, WorkerPlace
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, own_problems
from llm_do_temporal.definitions.workshop.formats import WorkerFile
from llm_do_temporal.definitions.yaml.lines import Document, KeyPath, parse_yaml
from llm_do_temporal.definitions.yaml.problems import Problem, problem_of, raise_first
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, read_bytes
from llm_do_temporal.definitions.yaml.validation import validate
from llm_do_temporal.errors import DefinitionError, DelegationRefusal, EffectFailed, UsageError, WorkerNotFound
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker
from llm_do_temporal.messages.delegation import LoadedTemplate
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.templates import (
    PACKAGE,
    TEMPLATE_SUFFIXES,
    TemplateRules,
    matches,
    normalise_template,
    template_problems,
    worker_name,
)

SHIPPED_TEMPLATES = "templates"
INPUT_NAME = "input"
"""`$input` in a template's text is what the call was given as `input`."""
_SPELLINGS = {"system": "instructions", "schema_object": "output_schema"}
"""Keys that templates may have instead of a worker's."""
_IGNORED = ("functions",)
_REFUSED = ("schema_in_ref", "locked", "attachments")
"""Keys of workers that mean nothing for a template."""
_RULES = ("toolsets", "delegation", "templates")
_WILDCARD = re.compile(r"[*?\[]")
_DOLLAR = "Write '$$' for a dollar sign."
ParameterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class TemplateKeys(Strict):
    """The keys that templates have and workers do not."""

    prompt: str = ""
    params: dict[ParameterName, str | int | float | bool] = Field(default_factory=dict)
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    parsed: ParsedWorker
    prompt: str
    """The key `prompt`: what the model is told with `$input` in it, or before the input."""
    defaults: dict[str, str]
    """The key `params`: values where a call gives none. Those that no text has a place for are told below the input."""


def load_template(
    registry: Registry, root: Path, name: str, params: Mapping[str, str], given: str, *, run_python: bool = True
) -> LoadedTemplate:
    """The template `name` (normalised) with `params` and the input `given` filled in; see `Registry.pinned`.

    Raises DefinitionError for a template with mistakes, EffectFailed where there is none of this name or
    the parameters are not those it has.
    """
    read = _read(template_place(name, root.resolve()), name)
    worker = registry.pinned(read.parsed, run_python=run_python)
    wanted = {*Template(worker.instructions).get_identifiers(), *Template(read.prompt).get_identifiers()}
    _check_params(name, wanted, read.defaults, params)
    values = {**read.defaults, **params, INPUT_NAME: given}
    parts = [Template(read.prompt).substitute(values), given if INPUT_NAME not in wanted else ""]
    parts += [f"{key}: {value}" for key, value in values.items() if key not in {*wanted, INPUT_NAME}]
    prompt = "\n\n".join(part for part in parts if part.strip())
    instructions = Template(worker.instructions).substitute(values)
    filled = {key: value for key, value in values.items() if key != INPUT_NAME}
    called = CalledTemplate(name=name, sha256=worker.sha256, params=filled, input=given)
    worker = worker.model_copy(update={"instructions": instructions})
    return LoadedTemplate(worker=worker, prompt=prompt, template=called)


def template_named(registry: Registry, worker: str) -> str | None:
    """The template (normalised) that a run's `worker` is; None for the name of a worker. Raises UsageError."""
    is_packaged = worker.startswith(PACKAGE)
    if not worker.endswith(TEMPLATE_SUFFIXES) and not (is_packaged and _is_packaged_template(registry, worker)):
        return None
    try:
        return normalise_template(worker)
    except DelegationRefusal as refusal:
        raise UsageError(refusal.message) from refusal


def load_started(registry: Registry, root: Path, start: StartRunInput) -> tuple[PinnedWorker, LoadedTemplate | None]:
    """The entry worker of a run; and, where that is a template, what is filled into it.

    Raises what `Registry.load` and `load_template` raise, UsageError for what does not go together.
    """
    name = template_named(registry, start.worker)
    if name is None:
        if start.params:
            raise UsageError(f"'params' are for templates, and worker '{start.worker[:80]}' is none")
        return registry.load(start.worker), None
    check_single(name, start)
    given = [start.prompt] if start.input is None else [start.prompt, *_params_as_text({"": start.input}).values()]
    try:
        told = "\n\n".join(part for part in given if part)
        loaded = load_template(registry, root, name, _params_as_text(start.params), told)
    except EffectFailed as error:
        raise UsageError(error.message, next_step=error.next_step) from error
    return loaded.worker, loaded


def check_single(template: str, start: StartRunInput) -> None:
    """Raise UsageError for a template that is to work on several items: it is filled in once, for one run."""
    if start.batch is not None:
        raise UsageError(
            f"template '{template}' cannot be run for several items",
            next_step="Write a worker that calls it with llm_worker_call, and run that for each of them.",
        )


def _is_packaged_template(registry: Registry, name: str) -> bool:
    try:
        registry.place_of(name)
    except WorkerNotFound:
        return _file_of(name, SHIPPED) is not None
    return False


def read_template(name: str, root: Path) -> ParsedWorker:
    """The template `name` (normalised) as the worker it becomes, unfilled; what is wrong with it is in the result.

    Raises EffectFailed where there is none of this name, DefinitionError where it cannot be read.
    """
    return _read(template_place(name, root), name).parsed


def named_templates(workers: Iterable[ParsedWorker], root: Path) -> tuple[list[ParsedWorker], list[Problem]]:
    """The workshop's templates that workers name, by name or glob, and what is wrong with the names.

    A glob that begins with a wildcard names nothing in particular, and is not looked at.
    """
    found: dict[str, ParsedWorker] = {}
    problems: list[Problem] = []
    for worker in workers:
        options = worker.definition.toolsets.delegation_options
        rules = options.template_rules if options is not None else None
        for path, pattern in () if rules is None or template_problems(rules) else _patterns(rules):
            for name in _matching(pattern, root.resolve()):
                try:
                    plain = normalise_template(name)
                    place = template_place(plain, root.resolve())
                    if plain not in found and not place.shipped:
                        found[plain] = _read(place, plain).parsed
                except (DelegationRefusal, EffectFailed) as missing:
                    problems.append(worker.problem_at((*_RULES, *path), missing.message))
                except DefinitionError as error:
                    problems.append(problem_of(error, file=name))
    return list(found.values()), problems


def _patterns(rules: TemplateRules) -> Iterator[tuple[KeyPath, str]]:
    if rules.lock is not None:
        yield ("lock",), rules.lock
    for number, pattern in enumerate(rules.allow):
        yield ("allow", number), pattern


def _matching(pattern: str, root: Path) -> Iterator[str]:
    """The names that a pattern stands for: itself, where it has no wildcard, or those of the files that match."""
    before, *wild = _WILDCARD.split(pattern, maxsplit=1)
    if not wild:
        yield pattern
        return
    folder = PurePosixPath(before.rpartition("/")[0])
    for path in sorted((root / folder).rglob("*")) if folder.parts else ():
        name = path.relative_to(root).as_posix()
        if name.endswith(TEMPLATE_SUFFIXES) and path.is_file() and matches(name, pattern):
            yield name


def template_place(name: str, root: Path) -> WorkerPlace:
    """Where the template stands."""
    shipped = name.startswith(PACKAGE)
    base = SHIPPED.resolve() if shipped else root
    path = _file_of(name, base)
    if path is None:
        raise EffectFailed(f"there is no template '{name}'")
    return WorkerPlace(worker_name(name), path, base, shipped=shipped, template=True)


def _file_of(name: str, base: Path) -> Path | None:
    stem = f"{SHIPPED_TEMPLATES}/{name.removeprefix(PACKAGE)}"
    shipped = name.startswith(PACKAGE)
    paths = [base / f"{stem}{suffix}" for suffix in TEMPLATE_SUFFIXES] if shipped else [base / name]
    return next((one for one in paths if one.is_file()), None)


def _read(place: WorkerPlace, name: str) -> _Read:
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
    return _Read(replace(parsed, problems=tuple(ordered)), keys.prompt, _params_as_text(keys.params))


def _as_worker(document: Document, place: WorkerPlace) -> tuple[Document, TemplateKeys, list[Problem]]:
    """The document with a worker's keys, those of templates alone, and what is wrong with or ignored of them."""
    values = dict(cast("dict[str, Any]", document.value))
    lines: dict[KeyPath, int] = dict(document.lines)
    problems = list(_unwanted(values, document, place))
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
    """The toolsets with what `tools` names: functions of `tools.py`, and classes of toolsets."""
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


def _unwanted(values: Mapping[str, Any], document: Document, place: WorkerPlace) -> Iterator[Problem]:
    for key in _IGNORED:
        if key in values:
            message = f"'{key}' of a template is ignored; write functions into {TOOLS_FILE} and name them in `tools:`"
            yield Problem(place.label, document.line_of((key,)), message, "warning")
    for key in _REFUSED:
        if key in values:
            yield Problem(place.label, document.line_of((key,)), f"'{key}' cannot be set in a template")


def _params_as_text(params: Mapping[str, Any]) -> dict[str, str]:
    """The values of parameters as what is filled in: texts as they are, others as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}


def _check_params(template: str, texts: set[str], defaults: Mapping[str, str], params: Mapping[str, str]) -> None:
    wanted = (texts | defaults.keys()) - {INPUT_NAME}
    unknown, missing = sorted(params.keys() - wanted), sorted(wanted - defaults.keys() - params.keys())
    if not unknown and not missing:
        return
    parts = [f"it has no parameter {_listed(unknown)}"] if unknown else []
    parts += [f"it needs {_listed(missing)}"] if missing else []
    raise EffectFailed(
        f"the parameters do not fit template '{template}': {'; '.join(parts)}",
        next_step=f"Its parameters are {_listed(sorted(wanted))}." if wanted else "It takes no parameters.",
    )


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name[:80]}'" for name in names[:10])
