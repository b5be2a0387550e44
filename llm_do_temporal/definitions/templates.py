"""Templates: YAML files that say what a model is told, with `$name` for what a call fills in.

A template becomes a worker like any other. Its text is never rendered by Jinja2: what is filled in was written
by a model, and so may be a template that lies in a folder which workers write to.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any, cast

from llm_do_temporal.definitions.formats import WorkerFile
from llm_do_temporal.definitions.places import SHIPPED, WorkerPlace
from llm_do_temporal.definitions.problems import Problem, raise_first
from llm_do_temporal.definitions.registry import Registry
from llm_do_temporal.definitions.text_files import Unreadable, decode, read_bytes
from llm_do_temporal.definitions.validation import validate
from llm_do_temporal.definitions.worker_file import ParsedWorker, own_problems
from llm_do_temporal.definitions.yaml_lines import Document, KeyPath, parse_yaml
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages import LoadedTemplate
from llm_do_temporal.policy.delegation import MAX_NAME_CHARS, check_name
from llm_do_temporal.policy.templates import PACKAGE, TEMPLATE_SUFFIXES

SHIPPED_TEMPLATES = "templates"
INPUT_NAME = "input"
"""`$input` in a template's text is what the call was given as `input`."""
_SPELLINGS = {"system": "instructions", "schema_object": "output_schema"}
"""Keys that templates may have instead of a worker's."""
_IGNORED = ("functions", "tools")
_REFUSED = ("schema_in_ref", "locked", "attachments")
"""Keys of workers that mean nothing for a template."""


@dataclass(frozen=True)
class _Read:
    parsed: ParsedWorker
    prompt: str
    """The key `prompt`: what the model is told with `$input` in it, or before the input."""


def load_template(registry: Registry, root: Path, name: str, params: Mapping[str, str], given: str) -> LoadedTemplate:
    """The template `name` (normalised) with `params` and the input `given` filled in.

    Raises DefinitionError for a template with mistakes, EffectFailed where there is none of this name or
    the parameters are not those it has.
    """
    read = _read(_place(name, root.resolve()), name)
    worker = registry.pinned(read.parsed)
    wanted = _names(worker.instructions, name) | _names(read.prompt, name)
    _check_params(name, wanted - {INPUT_NAME}, params)
    values = {**params, INPUT_NAME: given}
    prompt = Template(read.prompt).substitute(values)
    if INPUT_NAME not in wanted and given.strip():
        prompt = f"{prompt}\n\n{given}" if prompt.strip() else given
    instructions = Template(worker.instructions).substitute(values)
    return LoadedTemplate(worker=worker.model_copy(update={"instructions": instructions}), prompt=prompt)


def _place(name: str, root: Path) -> WorkerPlace:
    """Where the template stands; the name it answers to is made from the file's, so that it fits an id."""
    shipped = name.startswith(PACKAGE)
    base = SHIPPED.resolve() if shipped else root
    stem = f"{SHIPPED_TEMPLATES}/{name.removeprefix(PACKAGE)}"
    paths = [base / f"{stem}{suffix}" for suffix in TEMPLATE_SUFFIXES] if shipped else [base / name]
    path = next((one for one in paths if one.is_file()), None)
    if path is None:
        raise EffectFailed(f"there is no template '{name}'")
    return WorkerPlace(_worker_name(path.stem), path, base, shipped=shipped, template=True)


def _worker_name(stem: str) -> str:
    safe = re.sub(r"[^a-z0-9_-]+", "_", stem.lower())[:MAX_NAME_CHARS]
    try:
        check_name(safe)
    except DefinitionError:
        return f"template_{safe}"[:MAX_NAME_CHARS]
    return safe


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
    document, prompt, found = _as_worker(document, place)
    definition, invalid = validate(WorkerFile, document, file=place.label)
    told = definition.instructions or ""
    parsed = ParsedWorker(place, hashlib.sha256(content).hexdigest(), definition, document, told, 1, ())
    # A template may be all prompt, and is called by its file's name whatever it calls itself.
    own = own_problems(replace(parsed, text=told or prompt))
    ordered = sorted((*problems, *found, *invalid, *own), key=lambda problem: problem.line or 0)
    return _Read(replace(parsed, problems=tuple(ordered)), prompt)


def _as_worker(document: Document, place: WorkerPlace) -> tuple[Document, str, list[Problem]]:
    """The document with a worker's keys, its prompt, and what is wrong with or ignored of the others."""
    values = dict(cast("dict[str, Any]", document.value))
    lines: dict[KeyPath, int] = dict(document.lines)
    problems = list(_unwanted(values, document, place))
    for key in (*_IGNORED, *_REFUSED, "name"):
        values.pop(key, None)
    prompt: Any = values.pop("prompt", None)
    if prompt is not None and not isinstance(prompt, str):
        problems.append(Problem(place.label, document.line_of(("prompt",)), "'prompt' should be text"))
    for key, ours in _SPELLINGS.items():
        if key not in values:
            continue
        if ours in values:
            problems.append(Problem(place.label, document.line_of((key,)), f"'{key}' and '{ours}' are both given"))
        values[ours] = values.pop(key)
        lines |= {(ours, *path[1:]): line for path, line in document.lines.items() if path[:1] == (key,)}
    return replace(document, value=values, lines=lines), prompt if isinstance(prompt, str) else "", problems


def _unwanted(values: Mapping[str, Any], document: Document, place: WorkerPlace) -> Iterator[Problem]:
    for key in _IGNORED:
        if key in values:
            message = f"'{key}' of a template is ignored; name Python tools under `toolsets:`"
            yield Problem(place.label, document.line_of((key,)), message, "warning")
    for key in _REFUSED:
        if key in values:
            yield Problem(place.label, document.line_of((key,)), f"'{key}' cannot be set in a template")


def _names(text: str, template: str) -> set[str]:
    """The names that a text wants filled in."""
    if not Template(text).is_valid():
        raise DefinitionError(
            f"template '{template}' has a '$' that begins no name", next_step="Write '$$' for a dollar sign."
        )
    return set(Template(text).get_identifiers())


def _check_params(template: str, wanted: set[str], params: Mapping[str, str]) -> None:
    unknown, missing = sorted(params.keys() - wanted), sorted(wanted - params.keys())
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
