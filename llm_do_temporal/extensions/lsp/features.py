"""Answers to an editor's requests about one place of a file: completion, hover, definition, references, rename."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from llm_do_temporal.definitions.yaml.documents import unsaved
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.lsp.buffers import Buffers, place_at, position_of, uri_of
from llm_do_temporal.extensions.lsp.completions import Offer, complete
from llm_do_temporal.extensions.lsp.edited_file import EditedFile, held_bytes
from llm_do_temporal.extensions.lsp.hovers import explain
from llm_do_temporal.extensions.lsp.mentions import references_to, target_at, worker_at
from llm_do_temporal.extensions.lsp.names import WorkshopNames
from llm_do_temporal.extensions.lsp.rename import NameEdit, WorkerRename, plan_rename
from llm_do_temporal.extensions.lsp.yaml_places import Span, TextPlace

_KINDS = {
    "key": types.CompletionItemKind.Property,
    "choice": types.CompletionItemKind.EnumMember,
    "worker": types.CompletionItemKind.Module,
    "model": types.CompletionItemKind.Value,
    "capability": types.CompletionItemKind.Constant,
    "function": types.CompletionItemKind.Function,
    "class": types.CompletionItemKind.Class,
}


class Features:
    """Answers for the open files of one editor."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    @contextmanager
    def _place(self, params: Any, encoding: str) -> Generator[tuple[EditedFile, TextPlace] | None]:
        """Give the place that is asked about, while open texts count in place of files."""
        held = self._buffers.held()
        found = self._buffers.get(params.text_document.uri)
        with unsaved(held_bytes(held)):
            file = None if found is None else found.source
            yield None if file is None else (file, place_at(file.lines, params.position, encoding))

    def completion(self, params: types.CompletionParams, encoding: str) -> types.CompletionList:
        """Return the words that may stand at a place."""
        with self._place(params, encoding) as place:
            offers = None if place is None else complete(*place, WorkshopNames(place[0]))
            if place is None or offers is None:
                return types.CompletionList(is_incomplete=False, items=[])
            where = _range(place[0], offers.start, offers.end, encoding)
            items = [_item(offer, where, number) for number, offer in enumerate(offers.words)]
            # A model's provider decides which models are offered next.
            return types.CompletionList(any(one.kind == "model" for one in offers.words), items)

    def hover(self, params: types.HoverParams, encoding: str) -> types.Hover | None:
        """Explain what stands at a place."""
        with self._place(params, encoding) as place:
            found = None if place is None else explain(*place, WorkshopNames(place[0]))
            if place is None or found is None:
                return None
            text = types.MarkupContent(types.MarkupKind.Markdown, found.markdown)
            return types.Hover(text, _span_range(place[0], found.span, encoding))

    def definition(self, params: types.DefinitionParams, encoding: str) -> types.Location | None:
        """Return the place that a name leads to."""
        with self._place(params, encoding) as place:
            found = None if place is None else target_at(*place, WorkshopNames(place[0]))
            if found is None:
                return None
            here = types.Position(found.spot.line, found.spot.column)
            return types.Location(self._buffers.uri_at(found.path), types.Range(here, here))

    def references(self, params: types.ReferenceParams, encoding: str) -> list[types.Location]:
        """Return the mentions of the worker that is named at a place, and its file."""
        with self._place(params, encoding) as place:
            named = None if place is None else worker_at(*place)
            if place is None or named is None or not place[0].in_workshop:
                return []
            found = [
                types.Location(self._buffers.uri_at(one.file.path), _span_range(one.file, one.span, encoding))
                for one in references_to(named.worker, place[0].root, self._buffers.held())
            ]
            worker = WorkshopNames(place[0]).worker(named.worker)
            if params.context.include_declaration and worker is not None:
                start = types.Position(0, 0)
                found.append(types.Location(self._buffers.uri_at(worker.place.path), types.Range(start, start)))
            return found

    def prepare_rename(self, params: types.PrepareRenameParams, encoding: str) -> types.PrepareRenamePlaceholder | None:
        """Return what would be renamed at a place."""
        with self._place(params, encoding) as place:
            named = None if place is None else worker_at(*place)
            if place is None or named is None or not place[0].in_workshop:
                return None
            return types.PrepareRenamePlaceholder(_span_range(place[0], named.span, encoding), named.worker)

    def rename(self, params: types.RenameParams, encoding: str) -> tuple[types.WorkspaceEdit | None, tuple[str, ...]]:
        """Return the edits that give a worker a new name, and the texts that are left. Raises JsonRpcInvalidParams."""
        with self._place(params, encoding) as place:
            named = None if place is None else worker_at(*place)
            if place is None or named is None:
                raise JsonRpcInvalidParams("no worker is named here")
            if not place[0].in_workshop:
                raise JsonRpcInvalidParams("this file is in no workshop, so mentions of the worker are not known")
            try:
                plan = plan_rename(named.worker, params.new_name, place[0].root, self._buffers.held())
            except UsageError as error:
                step = f" {error.next_step}" if error.next_step else ""
                raise JsonRpcInvalidParams(f"{error.message}{step}") from error
            return self._workspace_edit(plan, encoding), plan.left

    def _workspace_edit(self, plan: WorkerRename, encoding: str) -> types.WorkspaceEdit:
        by_path: dict[Path, list[NameEdit]] = {}
        for edit in plan.edits:
            by_path.setdefault(edit.file.path, []).append(edit)
        changes: list[Any] = [
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(
                    self._buffers.uri_at(path), self._buffers.version_at(path)
                ),
                [types.TextEdit(_range(one.file, one.start, one.end, encoding), plan.name) for one in edits],
            )
            for path, edits in by_path.items()
        ]
        changes += [types.RenameFile(self._buffers.uri_at(old), uri_of(to)) for old, to in plan.moves]
        return types.WorkspaceEdit(document_changes=changes)


def _range(file: EditedFile, start: TextPlace, end: TextPlace, encoding: str) -> types.Range:
    return types.Range(position_of(file.lines, start, encoding), position_of(file.lines, end, encoding))


def _span_range(file: EditedFile, span: Span, encoding: str) -> types.Range:
    start, end = span.exact or (span.start, span.end)
    return _range(file, file.offsets.spot(start), file.offsets.spot(end), encoding)


def _item(offer: Offer, where: types.Range, number: int) -> types.CompletionItem:
    about = types.MarkupContent(types.MarkupKind.Markdown, offer.about) if offer.about else None
    return types.CompletionItem(
        label=offer.word,
        kind=_KINDS[offer.kind],
        detail=offer.kind,
        documentation=about,
        sort_text=f"{number:04}",
        filter_text=offer.word,
        text_edit=types.TextEdit(where, offer.insert or offer.word),
    )
