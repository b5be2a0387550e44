"""Instructions of a worker: text of the author, with files of the workshop included.

Rendered once, when a worker is loaded. Included text is inserted as it is and never rendered: only the author of the
worker's own file decides what a template does. Text that a model wrote is never rendered at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from jinja2 import nodes

from llm_do_temporal.definitions.workers.instruction_renderer import render
from llm_do_temporal.definitions.workers.instruction_syntax import (
    Inclusion,
    TemplateMistake,
    as_definition_error,
    inclusions,
    parse,
)
from llm_do_temporal.definitions.workers.places import is_generated
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.yaml.text_files import Missing, Unreadable, find_file, read_text


@dataclass(frozen=True)
class InstructionText:
    """Instructions as they stand in a worker file."""

    text: str
    file: str
    """Path of the worker file, as messages name it."""
    first_line: int
    """The line of the file on which the text begins."""
    folder: Path
    """The worker's folder: where included files are looked for first."""
    root: Path
    """The folder that included files may not leave."""


def render_instructions(source: InstructionText) -> str:
    """Return the instructions with everything included. Raises DefinitionError with file and line of a mistake."""
    if "{" not in source.text:
        return source.text.strip()
    try:
        return render(parse(source.text), lambda inclusion: _read(source, inclusion)).strip()
    except TemplateMistake as mistake:
        raise as_definition_error(mistake, source.file, source.first_line) from mistake


def check_instructions(source: InstructionText) -> None:
    """Raise DefinitionError where the instructions could not be rendered; nothing of them is carried out."""
    try:
        tree = parse(source.text)
        for inclusion in inclusions(tree):
            _read(source, inclusion)
        _check_names(tree)
        if not tree.body:
            raise TemplateMistake("they are empty once rendered")
    except TemplateMistake as mistake:
        raise as_definition_error(mistake, source.file, source.first_line) from mistake


def instruction_text(parsed: ParsedWorker) -> InstructionText:
    """Return the instructions of a worker file."""
    place = parsed.place
    return InstructionText(
        text=parsed.text, file=place.label, first_line=parsed.text_line, folder=place.path.parent, root=place.root
    )


def included_files(source: InstructionText) -> frozenset[str]:
    """Return every path, relative to the root, at which a file that the instructions include is looked for.

    Known without rendering: names of included files are literal. Instructions that cannot be used include none.
    """
    names = _included_names(source.text) or ()
    return frozenset(path for name in names for path in _looked_for(source, name))


def has_mistakes(parsed: ParsedWorker) -> bool:
    """Return whether the instructions cannot be taken apart, so that the files they would include are unknown."""
    place = parsed.place
    return not (place.shipped or place.generated) and _included_names(parsed.text) is None


@lru_cache(maxsize=512)
def _included_names(text: str) -> frozenset[str] | None:
    """Return the names of included files; None for instructions with mistakes."""
    if "{" not in text:
        return frozenset()
    try:
        return frozenset(name for inclusion in inclusions(parse(text)) for name in inclusion.names)
    except TemplateMistake:
        return None


def _looked_for(source: InstructionText, name: str) -> Iterator[str]:
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts:
        return
    for folder in dict.fromkeys((source.folder, source.root)):
        yield (folder / pure).relative_to(source.root).as_posix()


def _read(source: InstructionText, inclusion: Inclusion) -> str:
    """Return the text of the first file that exists. Raises TemplateMistake."""
    missing: Missing | None = None
    for name in inclusion.names:
        try:
            return _text_of(source, name)
        except Missing as error:
            missing = missing or error
        except Unreadable as error:
            raise TemplateMistake(str(error), inclusion.line, None) from error
    if inclusion.optional:
        return ""
    raise TemplateMistake(str(missing), inclusion.line, None) from missing


def _text_of(source: InstructionText, name: str) -> str:
    folders = (source.folder, source.root)
    path = find_file(name, folders, source.root)
    real = path.resolve()
    if any(part.startswith(".") for one in (path, real) for part in one.relative_to(source.root).parts):
        raise Unreadable(f"'{name}' is hidden: files and folders whose name begins with '.' are never included")
    if is_generated(real, source.root):
        raise Unreadable(f"'{name}' was written by a model and cannot be included")
    return read_text(name, folders, source.root)[0]


def _check_names(tree: nodes.Template) -> None:
    """Raise TemplateMistake for a name without a value."""
    named = list(tree.find_all(nodes.Name))
    given = {one.name for one in named if one.ctx != "load"} | {"file", "range", "loop"}
    for one in named:
        if one.ctx == "load" and one.name not in given:
            raise TemplateMistake(f"'{one.name[:80]}' is undefined", one.lineno)
