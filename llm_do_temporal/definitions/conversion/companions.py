"""Files that a worker refers to: included text, prompts, schemas, Python tools. Copied, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import cast

from llm_do_temporal.definitions.conversion.drafts import Draft, JsonObject
from llm_do_temporal.definitions.conversion.sources import Source
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode

MAX_COMPANIONS = 200
"""Files that one worker may bring along."""
_INCLUDES = re.compile(r"""(?:\bfile\(|\{%-?\s*(?:include|import|from|extends))\s*\(?\s*['"]([^'"\n]{1,300})['"]""")
_MARK = re.compile(rb"\{[{%#]")
_PROMPT_SUFFIXES = (".jinja2", ".j2", ".txt", ".md")
TOOLS_FILE = "tools.py"
_OLD_IMPORTS = re.compile(rb"^([ \t]*from[ \t]+)llm_do((?:\.types)?[ \t]+import[ \t])", re.MULTILINE)
"""Imports from llm-do in Python tools; this package has the imported names as well."""


class Companions:
    """Files that come along with one worker, by their paths below the worker's folder or the source's."""

    def __init__(self, draft: Draft, source: Source) -> None:
        self.beside: dict[PurePosixPath, bytes] = {}
        """Found in the worker's own folder."""
        self.shared: dict[PurePosixPath, bytes] = {}
        """Found in the source's folder."""
        self._draft = draft
        self._source = source

    def collect(self) -> None:
        """Find every file; note a file that is missing or lies outside the source, and drop the key that names it."""
        self._prompt()
        if not self._draft.literal and not self._draft.generated:
            self._included(self._draft.body)
        for key in ("output_schema_ref", "schema_in_ref"):
            if key in self._draft.keys:
                self._schema(key)
        if "custom" in self._draft.keys.get("toolsets", {}):
            self._tools()

    def _prompt(self) -> None:
        """Take the instructions from `prompts/` where the worker's file has none."""
        draft = self._draft
        if draft.body.strip():
            return
        for folder in (draft.folder, PurePosixPath()):
            for suffix in _PROMPT_SUFFIXES:
                try:
                    text = self._source.text(folder / "prompts" / f"{draft.given_name}{suffix}")
                except Unreadable as error:
                    draft.note(f"a prompt is left out: {error}")
                    continue
                if text is not None:
                    draft.body = text
                    draft.literal = draft.literal or suffix not in (".jinja2", ".j2")
                    return

    def _included(self, text: str) -> None:
        """Collect the files that the text includes; an included file is plain text and includes no others."""
        for name in _INCLUDES.findall(text):
            if len(self.beside) + len(self.shared) >= MAX_COMPANIONS:
                self._draft.note(f"only the first {MAX_COMPANIONS} files it includes are copied")
                return
            content = self._take(name)
            if content is not None and _MARK.search(content):
                self._draft.note(f"'{name[:80]}' is included as text: what stands there as a template is not rendered")

    def _schema(self, key: str) -> None:
        draft = self._draft
        name, _, cls = str(draft.keys[key]).rpartition(":")
        if not name:
            module, _, cls = str(draft.keys[key]).rpartition(".")
            if self._peek(f"{module}.py") is None:
                if not module or not _is_installed(module):
                    self._drop(key, f"'{key}' is left out: its module is neither in the folder nor installed")
                return
            name = f"{module}.py"
            draft.keys[key] = f"{name}:{cls}"
        if cls not in self._python(name, classes=True):
            self._drop(key, f"'{key}' is left out: there is no class '{cls[:80]}' in '{name[:80]}'")

    def _tools(self) -> None:
        custom = cast("JsonObject", self._draft.keys["toolsets"]["custom"])
        functions = self._python(TOOLS_FILE, classes=False)
        for name in [name for name in custom if name != "enabled" and name not in functions]:
            del custom[name]
            self._draft.note(f"Python tool '{name[:80]}' is left out: there is no such function in '{TOOLS_FILE}'")

    def _python(self, name: str, *, classes: bool) -> set[str]:
        """Take a Python file along, with the files beside it that it imports; return the names it defines."""
        content = self._take(name)
        try:
            tree = None if content is None else ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None:
            return set()
        folder = PurePosixPath(name).parent
        for module in _imported(tree):
            beside = str(folder / f"{module}.py")
            if self._peek(beside) is not None and not self._has(beside):
                self._python(beside, classes=True)
        wanted = (ast.ClassDef,) if classes else (ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in tree.body if isinstance(node, wanted)}

    def _has(self, name: str) -> bool:
        return PurePosixPath(name) in {*self.beside, *self.shared}

    def _peek(self, name: str) -> bytes | None:
        try:
            return self._found(name)[1]
        except Unreadable:
            return None

    def _take(self, name: str) -> bytes | None:
        if self._has(name):
            return None if self._draft.body else b""
        try:
            own, content = self._found(name)
            if content is not None:
                decode(content, name)
        except Unreadable as error:
            self._draft.note(f"a file is left out: {error}")
            return None
        if content is None:
            self._draft.note(f"'{name[:80]}' is left out: there is no such file")
            return None
        if name.endswith(".py") and _OLD_IMPORTS.search(content):
            content = _OLD_IMPORTS.sub(rb"\1llm_do_temporal\2", content)
            self._draft.note(f"'{name[:80]}' imports from llm_do; that was changed to llm_do_temporal")
        (self.beside if own else self.shared)[PurePosixPath(name)] = content
        return content

    def _found(self, name: str) -> tuple[bool, bytes | None]:
        """Return whether the file lies beside the worker, and its content (None where it lies elsewhere or nowhere)."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise Unreadable(f"'{name[:80]}' is not a path inside the folder")
        content = self._source.read(self._draft.folder / path)
        if content is not None:
            return self._draft.folder != PurePosixPath(), content
        return False, self._source.read(path)

    def _drop(self, key: str, message: str) -> None:
        del self._draft.keys[key]
        self._draft.note(message)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if "." not in alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and "." not in node.module:
            yield node.module


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
