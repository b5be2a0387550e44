"""Checks of workshops while their files are edited: soon after the last keystroke, one at a time, the newest counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from llm_do_temporal.definitions.language.findings import find_problems, saved_lines
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.doors.lsp.buffers import Buffers, OpenFile
from llm_do_temporal.doors.lsp.positions import whole_line
from llm_do_temporal.doors.lsp.transport import say_failure

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
            await self._publish(root, problems, files)

    async def _publish(self, root: Path, problems: Sequence[Problem], files: Mapping[str, OpenFile]) -> None:
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
