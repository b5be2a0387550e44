"""Loading of templates: YAML files with the model's instructions, and `$name` at the places that a call fills in.

A template becomes a worker like any other. Its text is never rendered by Jinja2: the values that are filled in were
written by a model, and so may be a template that lies in a folder which workers write to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from string import Template

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.places import SHIPPED, is_ignored
from llm_do_temporal.definitions.workers.template_file import (
    parameter_texts,
    parse_template,
    template_path,
    template_place,
)
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.yaml.documents import KeyPath, Problem, problem_of
from llm_do_temporal.errors import DefinitionError, DelegationRefusal, EffectFailed, UsageError, WorkerNotFound
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker
from llm_do_temporal.messages.delegation import LoadedTemplate
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.delegation import (
    PACKAGE,
    TEMPLATE_SUFFIXES,
    TemplateRules,
    matches,
    normalise_template,
    template_problems,
)

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
    """Return the template (normalised) that a run's `worker` names; None for a worker's name. Raises UsageError."""
    is_packaged = worker.startswith(PACKAGE)
    if not worker.endswith(TEMPLATE_SUFFIXES) and not (is_packaged and _is_packaged_template(registry, worker)):
        return None
    try:
        return normalise_template(worker)
    except DelegationRefusal as refusal:
        raise UsageError(refusal.message) from refusal


def load_started(registry: Registry, root: Path, start: StartRunInput) -> tuple[PinnedWorker, LoadedTemplate | None]:
    """Load the entry worker of a run; for a template, return also its loaded form with the values filled in, else None.

    Raises the errors of `Registry.load` and `load_template`, and UsageError for parameters without a template.
    """
    name = template_named(registry, start.worker)
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


def _is_packaged_template(registry: Registry, name: str) -> bool:
    try:
        registry.place_of(name)
    except WorkerNotFound:
        return template_path(name, SHIPPED) is not None
    return False


def named_templates(workers: Iterable[ParsedWorker], root: Path) -> tuple[list[ParsedWorker], list[Problem]]:
    """Return the workshop's templates that workers name, by name or glob, and the problems with these names.

    A glob that begins with a wildcard names no folder, and is not looked at.
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
                        found[plain] = parse_template(place, plain).parsed
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
