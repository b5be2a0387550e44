"""Template file: taken apart as the worker that it becomes, every mistake collected. Runs no Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Annotated, Any, cast

from pydantic import Field, StringConstraints

from llm_do_temporal.definitions.keys.files import WorkerFile
from llm_do_temporal.definitions.workers.places import SHIPPED, TOOLS_FILE, WorkerPlace, has_function
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, own_problems
from llm_do_temporal.definitions.yaml.documents import Document, KeyPath, Problem, parse_yaml, raise_first, validate
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, read_bytes
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.delegation import PACKAGE, TEMPLATE_SUFFIXES, worker_name

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


def read_template(name: str, root: Path) -> ParsedWorker:
    """Return the template `name` (normalised) as the worker it becomes, unfilled, with its problems.

    Raises EffectFailed where there is no such template, DefinitionError where it cannot be read.
    """
    return parse_template(template_place(name, root), name).parsed


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
    """Read and take apart the template at `place`. Raises DefinitionError for a file without keys."""
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


def _unwanted(values: Mapping[str, Any], document: Document, place: WorkerPlace) -> Iterator[Problem]:
    for key in _IGNORED:
        if key in values:
            message = f"'{key}' of a template is ignored; write functions into {TOOLS_FILE} and name them in `tools:`"
            yield Problem(place.label, document.line_of((key,)), message, "warning")
    for key in _REFUSED:
        if key in values:
            yield Problem(place.label, document.line_of((key,)), f"'{key}' cannot be set in a template")


def parameter_texts(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of parameters as they are filled in: texts as they are, others as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}
