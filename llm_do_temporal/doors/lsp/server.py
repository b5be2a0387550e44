"""Language server for files of definitions: a thin translation of the protocol to what `definitions.language` knows.

It runs no Python of a workshop, needs no key, no network and no Temporal server, and writes no file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer

from llm_do_temporal.doors.lsp.buffers import Buffers
from llm_do_temporal.doors.lsp.checks import SOURCE, Checks
from llm_do_temporal.doors.lsp.features import Features
from llm_do_temporal.doors.lsp.transport import AnsweringProtocol, say_failure

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
