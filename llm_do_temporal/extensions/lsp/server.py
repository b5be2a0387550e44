"""Language server for files of definitions: open texts, requests about one place, and when workshops are checked.

It runs no Python of a workshop, needs no key, no network and no Temporal server, and writes no file. Messages have
bounds, and a mistake of one ends nothing. Workshops are checked soon after the last keystroke, one at a time. The
protocol counts columns in UTF-16 unless editor and server agree on something else; definitions count characters.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcServerNotInitialized
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.yaml.documents import Problem, unsaved
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.lsp.completions import Offer, complete, explain
from llm_do_temporal.extensions.lsp.edited_file import (
    EditedFile,
    Span,
    TextPlace,
    WorkshopNames,
    edited_file,
    find_problems,
    held_bytes,
    saved_lines,
)
from llm_do_temporal.extensions.lsp.mentions import (
    NameEdit,
    WorkerRename,
    mentions_of,
    plan_rename,
    target_at,
    worker_at,
    workshop_files,
)

_UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
"""Bytes of a code unit of each encoding."""


def units(text: str, encoding: str) -> int:
    """Return the number of code units of a text."""
    size = _UNITS.get(encoding, 2)
    name = {1: "utf-8", 2: "utf-16-le", 4: "utf-32-le"}[size]
    return len(text.encode(name, "surrogatepass")) // size


def place_at(lines: Sequence[str], given: types.Position, encoding: str) -> TextPlace:
    """Return the place that an editor means; one beyond a line or the text is its end."""
    line = min(max(given.line, 0), len(lines) - 1)
    if given.line > line:
        return TextPlace(line, len(lines[line]))
    left, column = given.character, 0
    for character in lines[line]:
        left -= units(character, encoding)
        if left < 0:
            break
        column += 1
    return TextPlace(line, column)


def position_of(lines: Sequence[str], place: TextPlace, encoding: str) -> types.Position:
    """Return a place in the editor's units."""
    line = lines[place.line] if place.line < len(lines) else ""
    return types.Position(line=place.line, character=units(line[: place.column], encoding))


def path_of(uri: str) -> Path | None:
    """Return the path of a file's address; None for anything else than a file of this machine."""
    path = to_fs_path(uri)
    return None if not path or not path.startswith("/") or path.startswith("//") or "\0" in path else Path(path)


def uri_of(path: Path) -> str:
    """Return the address of a file."""
    return from_fs_path(str(path)) or ""


@dataclass(frozen=True)
class OpenFile:
    """File that is open in the editor."""

    uri: str
    """Address by which the editor knows it."""
    version: int | None
    source: EditedFile


class Buffers:
    """Files of definitions that are open."""

    def __init__(self) -> None:
        self._open: dict[str, OpenFile] = {}

    def put(self, uri: str, version: int | None, text: str) -> OpenFile | None:
        """Keep a text; return its file, or None for a file that defines nothing."""
        self._open.pop(uri, None)
        path = path_of(uri)
        source = None if path is None else edited_file(path, text)
        if source is None:
            return None
        self._open[uri] = OpenFile(uri, version, source)
        return self._open[uri]

    def drop(self, uri: str) -> OpenFile | None:
        """Forget a text that was closed, and return its file."""
        return self._open.pop(uri, None)

    def get(self, uri: str) -> OpenFile | None:
        """Return the file that is open at an address."""
        return self._open.get(uri)

    def held(self) -> dict[Path, EditedFile]:
        """Return all open texts by their real paths."""
        return {one.source.path: one.source for one in self._open.values()}

    def below(self, root: Path) -> list[OpenFile]:
        """Return the open files of a workshop."""
        return [one for one in self._open.values() if one.source.root == root and one.source.in_workshop]

    def roots(self) -> set[Path]:
        """Return the workshops of which files are open."""
        return {one.source.root for one in self._open.values() if one.source.in_workshop}

    def uri_at(self, path: Path) -> str:
        """Return the editor's own address of a file, or a new one for a file that is not open."""
        return next((uri for uri, one in self._open.items() if one.source.path == path), None) or uri_of(path)

    def version_at(self, path: Path) -> int | None:
        """Return the version of an open file; None for one that is not open."""
        return next((one.version for one in self._open.values() if one.source.path == path), None)


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
            text = types.MarkupContent(types.MarkupKind.Markdown, found[1])
            return types.Hover(text, _span_range(place[0], found[0], encoding))

    def definition(self, params: types.DefinitionParams, encoding: str) -> types.Location | None:
        """Return the place that a name leads to."""
        with self._place(params, encoding) as place:
            found = None if place is None else target_at(*place, WorkshopNames(place[0]))
            if found is None:
                return None
            here = types.Position(found[1].line, found[1].column)
            return types.Location(self._buffers.uri_at(found[0]), types.Range(here, here))

    def references(self, params: types.ReferenceParams, encoding: str) -> list[types.Location]:
        """Return the mentions of the worker that is named at a place, and its file."""
        with self._place(params, encoding) as place:
            named = None if place is None else worker_at(*place)
            if place is None or named is None or not place[0].in_workshop:
                return []
            name = named[0].removeprefix(PACKAGE_PREFIX)
            found = [
                types.Location(self._buffers.uri_at(file.path), _span_range(file, one.span, encoding))
                for file in workshop_files(place[0].root, self._buffers.held())[0]
                for one in mentions_of(name, file)
            ]
            worker = WorkshopNames(place[0]).worker(named[0])
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
            return types.PrepareRenamePlaceholder(_span_range(place[0], named[1], encoding), named[0])

    def rename(self, params: types.RenameParams, encoding: str) -> tuple[types.WorkspaceEdit | None, tuple[str, ...]]:
        """Return the edits that give a worker a new name, and the texts that are left. Raises JsonRpcInvalidParams."""
        with self._place(params, encoding) as place:
            named = None if place is None else worker_at(*place)
            if place is None or named is None:
                raise JsonRpcInvalidParams("no worker is named here")
            if not place[0].in_workshop:
                raise JsonRpcInvalidParams("this file is in no workshop, so mentions of the worker are not known")
            try:
                plan = plan_rename(named[0], params.new_name, place[0].root, self._buffers.held())
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


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message. Editors send whole texts, and no text that can be used has more than a megabyte."""
_MAX_HEADER_BYTES = 4096
_CHUNK_BYTES = 1024 * 1024


class BoundedPipe:
    """Reader of the editor's messages, which takes no more memory than one message may have."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._thread = ThreadPoolExecutor(1)

    async def readline(self) -> bytes:
        """Return a line of a header; empty at the end."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._pipe.readline, _MAX_HEADER_BYTES)

    async def readexactly(self, size: int) -> bytes:
        """Return a message; in place of one that is too large, something that is no message."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, size)

    def _read(self, size: int) -> bytes:
        if size <= MAX_MESSAGE_BYTES:
            return self._pipe.read(size)
        while size > 0 and (chunk := self._pipe.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
        return b"" if size > 0 else b"too large"


class AnsweringProtocol(LanguageServerProtocol):
    """Protocol that answers a request that it cannot read, too: nobody waits for it for ever."""

    def structure_message(self, data: Any) -> Any:
        """Read a message. Raises JsonRpcException."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            number = data.get("id")
            if "method" in data and isinstance(number, str | int):
                self._send_response(number, error=JsonRpcInvalidParams().to_response_error())
            raise


async def serve(server: LanguageServer) -> None:
    """Serve the editor at stdin and stdout until it says `exit`, or closes its end."""
    # Its lines would have contents of files, and paths of this machine.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    server.protocol.set_writer(StdoutWriter(sys.stdout.buffer))
    await run_async(
        stop_event=Event(),
        reader=BoundedPipe(sys.stdin.buffer),  # pyright: ignore[reportArgumentType] - has all that is used
        protocol=server.protocol,
        error_handler=server.report_server_error,
    )


def say_failure(method: str, error: BaseException) -> None:
    """Write one line about a mistake to the editor's log: its kind, and nothing that it was about."""
    sys.stderr.write(f"llm-do-temporal: {method} failed: {type(error).__name__}\n")
    sys.stderr.flush()


SOURCE = "llm-do-temporal"
WAIT_SECONDS = 0.15
"""Time after the last change: a check of a large workshop takes longer than a keystroke."""
_SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}


class Checks:
    """Checks for one editor, and what was last published of each workshop."""

    def __init__(self, server: LanguageServer, buffers: Buffers) -> None:
        self._server, self._buffers = server, buffers
        self._tasks: dict[Path, asyncio.Task[None]] = {}
        self._wanted: set[Path] = set()
        self._published: dict[Path, set[str]] = {}

    def file_changed(self, file: OpenFile) -> None:
        """Check what a file belongs to, soon; a file outside any workshop is checked by itself, at once."""
        if file.source.in_workshop:
            self.want(file.source.root)
        else:
            self._publish_file(file.uri, file.version, file.source.lines, file.source.own_problems())

    def want(self, root: Path) -> None:
        """Check a workshop soon."""
        self._wanted.add(root)
        task = self._tasks.get(root)
        if task is None or task.done():
            self._tasks[root] = asyncio.get_running_loop().create_task(self._check(root))

    def clear(self, uri: str) -> None:
        """Take back what was said of a file that is closed and belongs to no workshop."""
        self._publish_file(uri, None, (), ())

    async def _check(self, root: Path) -> None:
        while root in self._wanted:
            self._wanted.discard(root)
            await asyncio.sleep(WAIT_SECONDS)
            if root in self._wanted:
                continue
            files = {one.uri: one for one in self._buffers.below(root)}
            try:
                problems = await asyncio.to_thread(find_problems, root, self._buffers.held())
            except Exception as error:  # the next change is checked again
                say_failure("check", error)
                continue
            by_uri: dict[str, list[Problem]] = {uri: [] for uri in files}
            for problem in problems:
                if not problem.file.startswith(PACKAGE_PREFIX):
                    by_uri.setdefault(self._buffers.uri_at(root / problem.file), []).append(problem)
            gone = self._published.get(root, set()) - by_uri.keys()
            for uri, found in by_uri.items():
                file = files.get(uri)
                lines = file.source.lines if file else await asyncio.to_thread(saved_lines, found[0].file, root)
                self._publish_file(uri, None if file is None else file.version, lines, found)
            for uri in gone:
                self.clear(uri)
            self._published[root] = set(by_uri)

    def _publish_file(self, uri: str, version: int | None, lines: Sequence[str], problems: Sequence[Problem]) -> None:
        encoding = str(self._server.workspace.position_encoding or "utf-16")
        found = [_diagnostic(problem, lines, encoding) for problem in problems]
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))


def _diagnostic(problem: Problem, lines: Sequence[str], encoding: str) -> types.Diagnostic:
    message = problem.message if problem.next_step is None else f"{problem.message}\n{problem.next_step}"
    number = max((problem.line or 1) - 1, 0)
    line = lines[number] if number < len(lines) else ""
    start = len(line) - len(line.lstrip())
    ends = (TextPlace(number, start), TextPlace(number, max(start, len(line.rstrip()))))
    where = types.Range(*(position_of(lines, place, encoding) for place in ends))
    return types.Diagnostic(where, message, severity=_SEVERITIES[problem.severity], source=SOURCE)


WATCHED = ("**/*.worker", "**/workshop.yaml", "**/*.eval.yaml", "**/*.{py,md,yml,yaml}")
"""Files whose changes on disk change what is found."""


class DefinitionServer(LanguageServer):
    """Language server of one editor."""

    def __init__(self) -> None:
        super().__init__(
            SOURCE,
            version(SOURCE),
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=AnsweringProtocol,
        )
        self.buffers = Buffers()
        self.checks = Checks(self, self.buffers)
        self.features = Features(self.buffers)
        for method, handler in _HANDLERS.items():
            self.feature(method, _OPTIONS.get(method))(_guarded(self, method, handler))

    @property
    def encoding(self) -> str:
        """Encoding in whose units the editor counts columns."""
        return str(self.workspace.position_encoding or "utf-16")

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Say in the log what kind of mistake a message was; it ends nothing."""
        del source
        say_failure("a message", error)


def _guarded(
    server: DefinitionServer, method: str, handler: Callable[[DefinitionServer, Any], Any]
) -> Callable[[Any], Any]:
    """Return the handler of a method; a failure of it is one error for the editor, and a line in its log."""

    def handle(params: Any) -> Any:
        if server.protocol._workspace is None:  # pyright: ignore[reportPrivateUsage] - has no question for it
            raise JsonRpcServerNotInitialized()
        try:
            return handler(server, params)
        except JsonRpcException:
            raise
        except Exception as error:
            say_failure(method, error)
            raise JsonRpcInternalError(f"{method} failed") from None

    return handle


def _initialized(server: DefinitionServer, params: types.InitializedParams) -> None:
    """Ask to be told of files that change on disk, where the editor can tell."""
    del params
    workspace = server.client_capabilities.workspace
    watching = None if workspace is None else workspace.did_change_watched_files
    if watching is None or not watching.dynamic_registration:
        return
    options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(one) for one in WATCHED])
    watch = types.Registration("watched-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    server.client_register_capability(types.RegistrationParams([watch]))


def _opened(server: DefinitionServer, params: types.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    _keep(server, document.uri, document.version, document.text)


def _changed(server: DefinitionServer, params: types.DidChangeTextDocumentParams) -> None:
    document = params.text_document
    _keep(server, document.uri, document.version, server.workspace.get_text_document(document.uri).source)


def _keep(server: DefinitionServer, uri: str, number: int | None, text: str) -> None:
    file = server.buffers.put(uri, number, text)
    if file is not None:
        server.checks.file_changed(file)


def _closed(server: DefinitionServer, params: types.DidCloseTextDocumentParams) -> None:
    file = server.buffers.drop(params.text_document.uri)
    if file is None:
        return
    if file.source.in_workshop:
        server.checks.want(file.source.root)
    else:
        server.checks.clear(file.uri)


def _saved(server: DefinitionServer, params: Any) -> None:
    del params
    for root in server.buffers.roots():
        server.checks.want(root)


def _rename(server: DefinitionServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    workspace = server.client_capabilities.workspace
    edits = None if workspace is None else workspace.workspace_edit
    if edits is None or types.ResourceOperationKind.Rename not in (edits.resource_operations or ()):
        raise JsonRpcInvalidParams("this editor renames no files when it is asked to, so a rename would not be whole")
    found, left = server.features.rename(params, server.encoding)
    if left:
        message = f"Instructions that have the old name as a word were left as they are: {', '.join(left[:10])}"
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))
    return found


_HANDLERS: dict[str, Callable[[DefinitionServer, Any], Any]] = {
    types.INITIALIZED: _initialized,
    types.TEXT_DOCUMENT_DID_OPEN: _opened,
    types.TEXT_DOCUMENT_DID_CHANGE: _changed,
    types.TEXT_DOCUMENT_DID_CLOSE: _closed,
    types.TEXT_DOCUMENT_DID_SAVE: _saved,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: _saved,
    types.TEXT_DOCUMENT_COMPLETION: lambda server, params: server.features.completion(params, server.encoding),
    types.TEXT_DOCUMENT_HOVER: lambda server, params: server.features.hover(params, server.encoding),
    types.TEXT_DOCUMENT_DEFINITION: lambda server, params: server.features.definition(params, server.encoding),
    types.TEXT_DOCUMENT_REFERENCES: lambda server, params: server.features.references(params, server.encoding),
    types.TEXT_DOCUMENT_PREPARE_RENAME: lambda server, params: server.features.prepare_rename(params, server.encoding),
    types.TEXT_DOCUMENT_RENAME: _rename,
}
_OPTIONS: dict[str, Any] = {
    types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(trigger_characters=[":", " "]),
    types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
}
