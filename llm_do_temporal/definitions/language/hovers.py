"""Explanations of what stands at a place of a file: a key's meaning, and what a worker may do."""

from __future__ import annotations

from dataclasses import dataclass

from llm_do_temporal.definitions.language.edited_file import EditedFile
from llm_do_temporal.definitions.language.file_keys import key_at
from llm_do_temporal.definitions.language.names import WorkshopNames
from llm_do_temporal.definitions.language.permissions import permissions_of
from llm_do_temporal.definitions.language.vocabulary import name_kind
from llm_do_temporal.definitions.workers.places import named_worker
from llm_do_temporal.definitions.yaml.spans import Span, TextPlace
from llm_do_temporal.policy.approvals import ruling_of

_ABOUT_ITSELF = frozenset({"toolsets", "sandbox", "name"})
"""Keys of a worker whose meaning is what the worker may do."""


@dataclass(frozen=True)
class Explanation:
    """Text about a key or value."""

    span: Span
    markdown: str


def explain(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> Explanation | None:
    """Return an explanation of what stands at a place; None where there is nothing to say."""
    span = file.span_at(spot)
    if span is None:
        return None
    parts = [_of_name(file, span, names)]
    meaning = key_at(file.kind, span.path) if span.role == "key" else None
    if meaning is not None:
        parts.append(meaning.markdown)
        if file.kind == "worker" and len(span.path) == 1 and span.path[0] in _ABOUT_ITSELF:
            parts.append(_may_do(named_worker(file.path), names))
    text = "\n\n---\n\n".join(part for part in parts if part)
    return Explanation(span, text) if text else None


def _of_name(file: EditedFile, span: Span, names: WorkshopNames) -> str:
    match name_kind(file.kind, span.path, span.role):
        case "worker":
            return _may_do(span.text, names)
        case "capability" if names.workshop is not None:
            ruling = ruling_of(names.workshop.config.approvals, span.text)
            return f"**`{span.text}`**: `{ruling.value}` in this workshop"
        case "function":
            return next((_described(one.name, one.description) for one in names.functions if one.name == span.text), "")
        case "class":
            found = names.class_of(span.text)
            return "" if found is None else _described(found.name, found.description)
        case "model" if names.workshop is not None and span.text in names.workshop.config.models:
            return f"alias of `{names.workshop.config.models[span.text].model}`"
        case _:
            return ""


def _may_do(name: str, names: WorkshopNames) -> str:
    worker = names.worker(name)
    return "" if worker is None or names.workshop is None else permissions_of(worker, names.workshop)


def _described(name: str, text: str) -> str:
    return f"**`{name}`**\n\n{text}".rstrip()
