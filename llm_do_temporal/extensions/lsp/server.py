"""Language server for files of definitions: messages of the protocol, and when workshops are checked.

It runs no Python of a workshop, needs no key, no network and no Temporal server, and writes no file. Messages have
bounds, and a mistake of one ends nothing. Workshops are checked soon after the last keystroke, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcServerNotInitialized
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.yaml.documents import Problem
from llm_do_temporal.extensions.lsp.buffers import Buffers, OpenFile, whole_line
from llm_do_temporal.extensions.lsp.edited_file import find_problems, saved_lines
from llm_do_temporal.extensions.lsp.features import Features

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
    where = whole_line(lines, max((problem.line or 1) - 1, 0), encoding)
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
