"""An editor at the language server: the real process over its pipes, by the client of the protocol's own package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.support.patience import PATIENCE_SECONDS

COMMAND = (sys.executable, "-m", "llm_do_temporal.cli", "lsp")


class Editor:
    """Editor with files open."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self._found: dict[str, types.PublishDiagnosticsParams] = {}
        self._news = asyncio.Condition()
        self._versions: dict[str, int] = {}

        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(self._published())

    def _published(self) -> Callable[[types.PublishDiagnosticsParams], Awaitable[None]]:
        async def publish(params: types.PublishDiagnosticsParams) -> None:
            async with self._news:
                self._found[params.uri] = params
                self._news.notify_all()

        return publish

    def open(self, path: Path, text: str | None = None) -> types.TextDocumentIdentifier:
        """Open a file, with another text than it has on disk where one is given."""
        uri = path.as_uri()
        said = path.read_bytes().decode("utf-8", "replace") if text is None else text
        self._versions[uri] = 1
        item = types.TextDocumentItem(uri, "llm-do-worker", 1, said)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return types.TextDocumentIdentifier(uri)

    def close(self, document: types.TextDocumentIdentifier) -> None:
        """Close an open file, and forget what was found in it."""
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        self._found.pop(document.uri, None)

    def type(self, document: types.TextDocumentIdentifier, text: str) -> int:
        """Replace the text of an open file, and return its version."""
        self._versions[document.uri] += 1
        version = self._versions[document.uri]
        named = types.VersionedTextDocumentIdentifier(version, document.uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(named, [change]))
        return version

    async def problems(self, document: types.TextDocumentIdentifier, version: int = 1) -> list[types.Diagnostic]:
        """Wait for what is found in a version of an open file, or in a later one."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            await self._news.wait_for(lambda: self._version(document.uri) >= version)
            return list(self._found[document.uri].diagnostics)

    async def problems_of(self, path: Path) -> list[types.Diagnostic]:
        """Wait for what is found in a file that may not be open."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            await self._news.wait_for(lambda: path.as_uri() in self._found)
            return list(self._found[path.as_uri()].diagnostics)

    async def hover(self, document: types.TextDocumentIdentifier, line: int, character: int) -> str:
        """Return the explanation of what stands at a place; nothing where there is none."""
        found = await self.client.text_document_hover_async(
            types.HoverParams(document, types.Position(line, character))
        )
        return found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""

    async def offered(
        self, document: types.TextDocumentIdentifier, line: int, character: int
    ) -> list[types.CompletionItem]:
        found = await self.client.text_document_completion_async(
            types.CompletionParams(document, types.Position(line, character))
        )
        return list(found.items) if isinstance(found, types.CompletionList) else []

    async def rename(
        self, document: types.TextDocumentIdentifier, line: int, character: int, new: str
    ) -> types.WorkspaceEdit | None:
        """Ask for a rename of what stands at a place."""
        place = types.Position(line, character)
        return await self.client.text_document_rename_async(
            types.RenameParams(text_document=document, position=place, new_name=new)
        )

    def _version(self, uri: str) -> int:
        return -1 if uri not in self._found else self._found[uri].version or 0


@asynccontextmanager
async def editor(root: Path, *, encodings: tuple[str, ...] = (), renames_files: bool = True) -> AsyncGenerator[Editor]:
    """Give an editor that has opened a folder, with a server of its own, which ends with it."""
    client = LanguageClient("an editor", "1")
    at = Editor(client)
    await client.start_io(*COMMAND)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.initialize_async(_greeting(root, encodings, renames_files=renames_files))
        client.initialized(types.InitializedParams())
        yield at
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.shutdown_async(None)
        client.exit(None)
    finally:
        await client.stop()


def _greeting(root: Path, encodings: tuple[str, ...], *, renames_files: bool) -> types.InitializeParams:
    operations = [types.ResourceOperationKind.Rename] if renames_files else []
    edits = types.WorkspaceEditClientCapabilities(document_changes=True, resource_operations=operations)
    general = types.GeneralClientCapabilities(position_encodings=encodings) if encodings else None
    return types.InitializeParams(
        capabilities=types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(workspace_edit=edits), general=general
        ),
        root_uri=root.as_uri(),
    )
