"""A worker's instructions: text of the author, with files of the workshop included.

Rendered once, when a worker is loaded, by Jinja2's sandboxed environment. Text that a model wrote is
never rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llm_do_temporal.definitions.places import is_generated
from llm_do_temporal.definitions.text_files import MAX_FILE_BYTES, Missing, Unreadable, label_of, read_text
from llm_do_temporal.errors import DefinitionError

_MAIN = "<template>"
"""The file name Jinja2 gives to a template made from a string."""
_RAW_HINT = "Text that only looks like a template goes between {% raw %} and {% endraw %}."


@dataclass(frozen=True)
class InstructionText:
    """Instructions as they stand in a worker file."""

    text: str
    file: str
    """How messages call the worker file."""
    first_line: int
    """The line of the file on which the text begins."""
    folder: Path
    """The worker's folder: where included files are looked for first."""
    root: Path
    """The folder that included files may not leave."""


def render_instructions(source: InstructionText) -> str:
    """The instructions with everything included. Raises DefinitionError with the file and line of a mistake."""
    loader = _WorkshopLoader(source)
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=False,
    )
    cast("dict[str, Any]", environment.globals)["file"] = loader.literal_text
    try:
        _check_cycles(environment, loader, source)
        pieces = environment.from_string(source.text).generate()
        return _joined(pieces).strip()
    except DefinitionError:
        raise
    except TemplateSyntaxError as error:
        file, line = _position(source, error.filename, error.lineno)
        raise DefinitionError(f"template: {error.message}", file=file, line=line, next_step=_RAW_HINT) from error
    except RecursionError as error:
        raise DefinitionError("template: it includes itself without end", file=source.file) from error
    except Exception as error:  # a template is a program of the author's: whatever it raises is a mistake in it
        file, line = _position(source, *_last_template_frame(source, error.__traceback__))
        hint = None if isinstance(error, (Unreadable, TemplateNotFound)) else _RAW_HINT
        raise DefinitionError(f"template: {error}", file=file, line=line, next_step=hint) from error


class _WorkshopLoader(BaseLoader):
    """Finds included files: in the worker's folder, then in the workshop's."""

    def __init__(self, source: InstructionText) -> None:
        self._folders = (source.folder, source.root)
        self._root = source.root

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        try:
            text, path = read_text(template, self._folders, self._root)
        except Missing as error:
            raise TemplateNotFound(template, str(error)) from error
        if is_generated(path, self._root):
            raise Unreadable(
                f"'{template}' was written by a model and cannot be included as a template; use {{{{ file('…') }}}}"
            )
        return text, label_of(path, self._root), lambda: True

    def literal_text(self, name: str) -> str:
        """The text of a file, as it is: `{{ file('NAME') }}`."""
        return read_text(str(name), self._folders, self._root)[0]


def _check_cycles(environment: Environment, loader: _WorkshopLoader, source: InstructionText) -> None:
    """Raise DefinitionError where a file includes itself, at the line that closes the circle."""
    visited: set[str] = set()

    def visit(text: str, file: str, offset: int, trail: tuple[str, ...]) -> None:
        for name, line in _includes(environment, text, file):
            try:
                inner, label, _ = loader.get_source(environment, name)
            except (TemplateNotFound, Unreadable):
                continue  # it may stand in a branch that is never taken
            if label in trail:
                circle = " → ".join((*trail[trail.index(label) :], label))
                raise DefinitionError(f"template: files include each other: {circle}", file=file, line=line + offset)
            if label not in visited:
                visit(inner, label, 0, (*trail, label))
                visited.add(label)

    visit(source.text, source.file, source.first_line - 1, (source.file,))


def _includes(environment: Environment, text: str, file: str) -> Iterator[tuple[str, int]]:
    try:
        tree = environment.parse(text, filename=file)
    except TemplateSyntaxError:
        return  # reported when the template is rendered
    for node in tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)):
        for constant in (
            node.template.find_all(nodes.Const) if not isinstance(node.template, nodes.Const) else (node.template,)
        ):
            if isinstance(constant.value, str):
                yield constant.value, node.lineno


def _joined(pieces: Iterator[str]) -> str:
    """The rendered text, or DefinitionError when it grows past what a file may have."""
    parts: list[str] = []
    length = 0
    for piece in pieces:
        parts.append(piece)
        length += len(piece)
        if length > MAX_FILE_BYTES:
            raise ValueError(f"the instructions are longer than {MAX_FILE_BYTES} characters")
    return "".join(parts)


def _last_template_frame(source: InstructionText, trace: TracebackType | None) -> tuple[str | None, int | None]:
    """The innermost line of a template, by the file name Jinja2 put into the traceback."""
    found: tuple[str | None, int | None] = (None, None)
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == _MAIN or (not name.startswith(("/", "<")) and (source.root / name).is_file()):
            found = name, trace.tb_lineno
        trace = trace.tb_next
    return found


def _position(source: InstructionText, name: str | None, line: int | None) -> tuple[str, int | None]:
    if name in (None, _MAIN, "<unknown>", source.file):
        return source.file, None if line is None else source.first_line - 1 + line
    return str(name), line
