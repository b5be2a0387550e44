"""Workers that a model creates: the text of the file, and whether it may be written.

The file has no body, only keys, with the instructions as a YAML text, so that any text from a model stays a single
value. Must not write anything; `save_worker` does, after a person has seen the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from llm_do_temporal.definitions.registry.registry import complete
from llm_do_temporal.definitions.workers.places import GENERATED, SHIPPED, WorkerPlace, known_names, places_of
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker, read_worker, split_front_matter
from llm_do_temporal.definitions.workshop import Workshop, is_known_model
from llm_do_temporal.definitions.yaml.text_files import Unreadable, find_file, label_of
from llm_do_temporal.errors import DelegationRefusal
from llm_do_temporal.messages.delegation import DraftWorkerInput, WorkerDraft
from llm_do_temporal.policy.delegation import check_name

MAX_DEFINITION_BYTES = 64 * 1024
"""Largest definition. Instructions of this size are a book, and a person has to read them before the worker exists."""
_WIDE = 1 << 30
"""Line width, in characters, that is never reached: no text is broken into lines that it does not have."""


def draft_worker(workshop: Workshop, asked: DraftWorkerInput) -> WorkerDraft:
    """Return the file of the worker that `asked` describes, with the workshop's `creation_defaults`.

    Raises DelegationRefusal for a worker that may not be made, DefinitionError for an invalid name.
    """
    check_name(asked.name)
    keys = _keys(workshop, asked)
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
    if model is not None and not is_known_model(model, workshop.config):
        aliases = ", ".join(f"'{alias}'" for alias in workshop.config.models) or "none"
        raise DelegationRefusal(
            f"model '{model[:80]}' is neither provider:name nor an alias of the workshop; aliases: {aliases}",
            next_step="Leave `model` out to use the usual one.",
        )
    check_free(parsed.place.name, parsed.document.value, workshop)


def check_free(name: str, value: Any, workshop: Workshop) -> None:
    """Raise DelegationRefusal where a worker of this name exists, unless it is at the same place with the same keys."""
    own = generated_place(name, workshop.root).path
    for place in places_of(name, root=workshop.root, shipped=SHIPPED.resolve()):
        existing = read_worker(place)
        if place.path == own and not existing.problems and existing.document.value == value:
            continue
        locked = " and is locked" if existing.definition.locked else ""
        raise DelegationRefusal(
            f"worker '{name}' exists already{locked} ({place.label}); no worker is overwritten",
            next_step="Choose another name, or call the worker that is there.",
        )


def generated_place(name: str, root: Path) -> WorkerPlace:
    """Return the place at which a worker that a model creates is written."""
    return WorkerPlace(name, root / GENERATED / f"{name}.worker", root)


def _keys(workshop: Workshop, asked: DraftWorkerInput) -> dict[str, Any]:
    """Return the keys of the file, in the order a person reads them."""
    defaults = workshop.config.creation_defaults.model_dump(mode="json", exclude_unset=True)
    keys: dict[str, Any] = {"name": asked.name, "description": asked.description.strip(), **defaults}
    if asked.model is not None:
        keys["model"] = asked.model
    if asked.output_schema_ref is not None:
        keys["output_schema_ref"] = _known_reference(workshop.root, asked.output_schema_ref)
    keys["locked"] = False
    # Instructions are stripped whenever they are loaded.
    keys["instructions"] = asked.instructions.strip()
    return keys


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


class _QuotingWriter(yaml.SafeDumper):
    """Writer of YAML without aliases, with every text in quotes and every unusual character escaped."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')


class _BlockWriter(_QuotingWriter):
    """Writer that keeps a text of several lines as it stands, so that people can read it."""

    def text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_QuotingWriter.add_representer(str, _QuotingWriter.text)
_BlockWriter.add_representer(str, _BlockWriter.text)


def _as_yaml(keys: dict[str, Any], *, blocks: bool) -> str:
    writer = _BlockWriter if blocks else _QuotingWriter
    return str(yaml.dump(keys, Dumper=writer, sort_keys=False, allow_unicode=blocks, width=_WIDE))
