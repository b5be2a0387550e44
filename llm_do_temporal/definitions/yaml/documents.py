"""YAML as plain JSON values with the line of every key, and validation against a model: every mistake with its line.

Stricter than a YAML loader: no tags, no duplicate or merge keys, no dates, a limit on the size that aliases may expand
to. `yes`, `no`, `on`, `off`, `12:30`, `1_000` and `01234` are texts. All problems of a document are collected; the
value leaves out the invalid parts.

All text files of a workshop are read here: found by relative names, read whole, never outside their root.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from types import MappingProxyType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llm_do_temporal.errors import DefinitionError

MAX_FILE_BYTES = 1024 * 1024
"""Largest file. Definitions are written by hand; a larger file is a mistake, and would not fit a Temporal payload."""


_MAX_LINKS = 40
_UNSAVED: ContextVar[Mapping[Path, bytes]] = ContextVar("_UNSAVED", default=MappingProxyType[Path, bytes]({}))


class Unreadable(Exception):
    """File that is missing, outside its root, too large or not text; `str()` of it is for people."""


class Missing(Unreadable):
    """File that does not exist."""


def label_of(path: Path, root: Path) -> str:
    """Return the path of a file relative to `root`, as messages name it."""
    return path.relative_to(root).as_posix()


def places_on_the_way(path: str, root: Path) -> Iterator[str]:
    """Yield the file at `path` (relative to `root`) and every link on the way to it, as real paths below `root`.

    Writing any of these changes the text that is read. Ends at a link that leads out, or in a circle.
    """
    waiting, real, followed = list(reversed(PurePosixPath(path).parts)), PurePosixPath(), 0
    while waiting:
        part = waiting.pop()
        here = real.parent if part == ".." else real / part
        try:
            led_to = (root / here).readlink() if part != ".." else None
        except OSError:
            led_to = None
        if led_to is None:
            real = here
            continue
        yield here.as_posix()
        followed += 1
        if followed > _MAX_LINKS or (led_to.is_absolute() and not led_to.is_relative_to(root)):
            return
        if led_to.is_absolute():
            led_to, real = led_to.relative_to(root), PurePosixPath()
        waiting.extend(reversed(led_to.parts))
    yield real.as_posix()


def check_inside(path: Path, root: Path) -> None:
    """Raise Unreadable unless `path` is a file that still lies in `root` when symlinks are followed."""
    label = label_of(path, root)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise Missing(f"'{label}' cannot be opened") from error
    if not real.is_relative_to(root):
        raise Unreadable(f"'{label}' is a link that leads out of the workshop")
    if not real.is_file():
        raise Unreadable(f"'{label}' is not a file")


@contextmanager
def unsaved(texts: Mapping[Path, bytes]) -> Generator[None]:
    """Let what an editor holds count in place of what the files at these real paths hold.

    For as long as the context lasts, and for its own task or thread alone. All other bounds stay.
    """
    token = _UNSAVED.set(texts)
    try:
        yield
    finally:
        _UNSAVED.reset(token)


def read_bytes(path: Path, root: Path) -> bytes:
    """Return the content of a file inside `root`. Raises Unreadable."""
    check_inside(path, root)
    label, held = label_of(path, root), _UNSAVED.get()
    content = held.get(path.resolve()) if held else None
    if content is None:
        try:
            # Not the path but what is opened counts: a link or a pipe may have taken the file's place meanwhile.
            descriptor = os.open(path.resolve(strict=True), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unreadable(f"'{label}' is not a file")
                link = Path(f"/proc/self/fd/{descriptor}")
                if link.is_symlink() and not link.readlink().is_relative_to(root.resolve()):
                    raise Unreadable(f"'{label}' is a link that leads out of the workshop")
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"'{label}' cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"'{label}' is larger than {MAX_FILE_BYTES} bytes, the most a file may have")
    return content


def decode(content: bytes, label: str) -> str:
    """Return `content` as text with plain newlines and no byte order mark. Raises Unreadable where it is not UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"'{label}' is not UTF-8 text (line {line})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_file(name: str, folders: Sequence[Path], root: Path) -> Path:
    """Return the first file called `name` in the folders, all of which lie in `root`. Raises Unreadable."""
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts:
        raise Unreadable(f"'{name}' is not a path inside the workshop; '..' and absolute paths are not allowed")
    for folder in folders:
        path = folder / pure
        try:
            is_there = path.exists() or path.is_symlink()
        except OSError as error:  # its text has the path on this machine
            raise Unreadable(f"'{name[:80]}' cannot be opened: {error.strerror}") from error
        if is_there:
            check_inside(path, root)
            return path
    looked = " and ".join(f"'{label_of(folder, root)}/'" for folder in dict.fromkeys(folders) if folder != root)
    raise Missing(f"there is no file '{name}' in {looked + ' or ' if looked else ''}the workshop's folder")


def read_text(name: str, folders: Sequence[Path], root: Path) -> tuple[str, Path]:
    """Return the text of the first file called `name` in the folders, and its path. Raises Unreadable."""
    path = find_file(name, folders, root)
    return decode(read_bytes(path, root), label_of(path, root)), path


Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """Problem with a file."""

    file: str
    """Path relative to the workshop, or `pkg:…` for a file that ships with the package."""
    line: int | None
    message: str
    severity: Severity = "error"
    next_step: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.message}"


def problem_of(error: DefinitionError, *, file: str) -> Problem:
    """Return the problem that `error` describes; `file` is used where the error names no file."""
    return Problem(file=error.file or file, line=error.line, message=error.problem, next_step=error.next_step)


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None, *, cutoff: float = 0.6) -> str | None:
    """Return a hint at the known name that a wrong one probably means; `otherwise` where none is close."""
    close = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"Did you mean '{close[0]}'?" if close else otherwise


def raise_first(problems: Sequence[Problem]) -> None:
    """Raise DefinitionError for the first problem that is an error, with the number of the others; else do nothing."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return
    first, steps = errors[0], [errors[0].next_step] if errors[0].next_step else []
    if len(errors) > 1:
        more = "1 more problem" if len(errors) == 2 else f"{len(errors) - 1} more problems"
        steps.append(f"{more}: `llm-do-temporal check` lists all of them.")
    raise DefinitionError(first.message, file=first.file, line=first.line, next_step=" ".join(steps) or None)


_IN_QUOTES = "A text stands in quotes if it begins with {sign} or has ': ' in it."
_COLUMNS = "Keys of one level begin in the same column."
_ADVICE: tuple[tuple[str, str], ...] = (
    (r"found character '\\t'", "Write spaces in place of tabs."),
    (r"found character '(?P<sign>.)' that cannot start", _IN_QUOTES),
    (r"found undefined alias|while scanning an alias", _IN_QUOTES.replace("{sign}", "*")),
    (r"while scanning an anchor", _IN_QUOTES.replace("{sign}", "&")),
    (r"expected the node content, but found '(?P<sign>.)'", _IN_QUOTES),
    (r"while scanning a block scalar", _IN_QUOTES.replace("{sign}", "> or |")),
    (r"mapping values are not allowed here", f"A text with ': ' in it stands in quotes. {_COLUMNS}"),
    (r"sequence entries are not allowed here", "A list begins below its key."),
    (r"a quoted scalar, found unexpected end", "The quotation mark in line {line} has no other one."),
    (r"unknown escape character", "A \\ in double quotes is written twice."),
    (r"a flow sequence, expected", "The list that begins with [ in line {line} has commas, and ends with ]."),
    (r"a flow mapping, expected", "What begins with {{ in line {line} has commas, and ends with }}."),
    (r"but found '<scalar>'", "Behind a text in quotes comes a new line; a ' in single quotes is written twice."),
    (r"but found '<block mapping start>'", _COLUMNS),
    (r"expected <block end>, but found '-'", "There are keys and a list in the same column."),
    (r"a simple key, could not find expected ':'", "Line {line} has no `key:`. A text of several lines is indented."),
    (r"but found another document", "There is one line `---` too many."),
)
"""Expressions for a parser's words, and the advice on them; the first that fits counts."""


def advice_on(words: str, line: int) -> str | None:
    """Return what to do about a mistake in YAML, whose text goes wrong from a line on; None where nothing is known."""
    known = ((re.search(pattern, words), advice) for pattern, advice in _ADVICE)
    return next((advice.format(line=line, **found.groupdict()) for found, advice in known if found), None)


KeyPath: TypeAlias = tuple[str | int, ...]

MAX_VALUES = 20_000
"""Values in a document. Aliases make a short text describe a huge value; files written by hand have far fewer."""
MAX_DEPTH = 100
_YAML = "tag:yaml.org,2002:"
_MERGE = _YAML + "merge"
_FORMER_BOOLEANS = frozenset({"yes", "no", "on", "off"})
"""Words that YAML 1.1 takes for true and false. Editors, and files with choices such as `[yes, no]`, mean texts."""
_FORMER_NUMBER = re.compile(r"[:_]|^[-+]?0[0-9b]")
"""Beginnings and characters of what YAML 1.1 alone takes for a number."""
# Dates and `=` have tags of their own in YAML; here they are text like any other.
_TEXT_TAGS = frozenset({_YAML + "str", _YAML + "timestamp", _YAML + "value"})


@dataclass(frozen=True)
class Document:
    """YAML document that was read."""

    value: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    """The line of each key and of each list item."""
    text_lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    """The line on which the text of each scalar begins."""

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of `path`, or of the innermost key around it that has a line; None where none has."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.lines.get(())


class _Unbuildable(Exception):
    """Document that is given up: its problem, without the file, and the line."""


def parse_yaml(text: str, *, file: str) -> tuple[Document, list[Problem]]:
    """Return the single document in `text` (value None for an empty text) and its problems; `file` is for these."""
    builder = _Builder(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = None if node is None else builder.build(node, ())
    except yaml.YAMLError as error:
        return Document(None), [_syntax_problem(error, text, file)]
    except _Unbuildable as error:
        return Document(None), [Problem(file, error.args[1], error.args[0])]
    except RecursionError:
        return Document(None), [Problem(file, None, "nested too deeply")]
    return Document(value, builder.lines, builder.text_lines), builder.problems


class _Builder:
    """Builder of plain values from nodes, which remembers lines and problems."""

    def __init__(self, file: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.text_lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._file = file
        self._values = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _Unbuildable(f"holds more than {MAX_VALUES} values once its aliases are written out", _line(node))
        if len(path) > MAX_DEPTH:
            message = f"nested more than {MAX_DEPTH} levels deep, or an alias refers to itself"
            raise _Unbuildable(message, _line(node))
        self.lines.setdefault(path, _line(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _YAML + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _YAML + "seq":
            return [self.build(item, (*path, place)) for place, item in enumerate(cast("list[yaml.Node]", node.value))]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._wrong_tag(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if not isinstance(key_node, yaml.ScalarNode) or not _is_text(key_node):
                self._report(key_node, "a key must be plain text")
                continue
            if key_node.tag == _MERGE:
                self._report(key_node, "merge keys ('<<') are not supported; write the keys out")
                continue
            key = str(key_node.value)
            if key in result:
                self._report(key_node, f"duplicate key '{key}'; it already stands in line {self.lines[(*path, key)]}")
                continue
            self.lines[(*path, key)] = _line(key_node)
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        # The text of a block scalar begins below its `|` or `>`.
        self.text_lines[path] = _line(node) + (1 if node.style in ("|", ">") else 0)
        if not _is_text(node):
            return self._report(node, "it contains a character that is not text")
        # A text of YAML 1.2 may be something else in 1.1: `no`, `12:30`, `1_000`, `0b11`. `01234` is a text, too: YAML
        # 1.1 reads it as 668, YAML 1.2 as 1234, and people mean a code or a postcode.
        text = str(node.value)
        if node.tag in _TEXT_TAGS or text.lower() in _FORMER_BOOLEANS or _FORMER_NUMBER.search(text):
            return text
        kind = node.tag.removeprefix(_YAML)
        if kind not in ("null", "bool", "int", "float"):
            return self._wrong_tag(node)
        try:
            value = getattr(self._scalars, f"construct_yaml_{kind}")(node)
            if kind == "float" and not math.isfinite(value):
                raise ValueError(text)
        except (ValueError, KeyError):
            return self._report(node, f"'{text[:60]}' is not a valid {_short(node.tag).strip('!')}")
        return value

    def _wrong_tag(self, node: yaml.Node) -> None:
        self._report(node, f"the YAML tag '{_short(node.tag)}' is not allowed; write plain values")

    def _report(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self._file, _line(node), message))


def _is_text(node: yaml.ScalarNode) -> bool:
    """Return whether the value can be written as UTF-8; an escape such as `\\ud800` makes a text that cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in str(node.value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_YAML)}" if tag.startswith(_YAML) else tag


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        words = ", ".join(str(part) for part in (error.context, error.problem) if part)
        found = int(error.problem_mark.line) + 1
        start = found if error.context_mark is None else int(error.context_mark.line) + 1
        # That a line has no colon is found on a later one.
        line = start if str(error.problem).startswith("could not find") else found
        return Problem(file, line, f"not valid YAML: {words}", next_step=advice_on(words, start))
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, int(error.position)) + 1
        return Problem(file, line, "not valid YAML: it contains a character that is not text")
    return Problem(file, None, "not valid YAML")


M = TypeVar("M", bound=BaseModel)

_WORDS = (
    ("an object", "keys and values"),
    ("a valid array", "a list"),
    ("a valid boolean", "true or false"),
    ("a valid dictionary", "keys and values"),
    ("a valid integer", "a whole number"),
    ("a valid string", "text"),
)
"""Pydantic's words for types, with the words of people who write YAML."""
_KEYS = "A key is followed by a colon and a space, as in `description: …`."
_QUOTES = "In quotes it is text."


def validate(model: type[M], document: Document, *, file: str) -> tuple[M, list[Problem]]:
    """Return the document as a `model`, and its problems.

    Top-level keys with mistakes are left out of the result, so that the others can be checked further.
    """
    if document.value is None:
        return model(), []
    if not isinstance(document.value, dict):
        problem = Problem(file, document.line_of(()), "this is not a list of keys and values", next_step=_KEYS)
        return model(), [problem]
    values = cast("dict[str, Any]", document.value)
    # A known key with nothing after it is a key left out.
    values = {key: value for key, value in values.items() if value is not None or key not in model.model_fields}
    try:
        return _strictly(model, values), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems = [_problem(model, document, detail, file) for detail in details]
    wrong = {detail["loc"][0] for detail in details if detail["loc"]}
    try:
        return _strictly(model, {key: value for key, value in values.items() if key not in wrong}), problems
    except ValidationError:
        return model(), problems


def read_strictly(model: type[M], document: Document, *, file: str) -> tuple[M | None, list[Problem]]:
    """Return the document as a `model`, and its problems; None for a document with any."""
    try:
        return _strictly(model, cast("dict[str, Any]", document.value)), []
    except ValidationError as error:
        return None, [_problem(model, document, detail, file) for detail in error.errors(include_url=False)]


def _strictly(model: type[M], values: dict[str, Any]) -> M:
    # Strict JSON mode takes lists for tuples and text for enums, but no "5" for 5 and no `true` for 1.
    return model.model_validate_json(json.dumps(values), strict=True)


def _problem(model: type[BaseModel], document: Document, detail: ErrorDetails, file: str) -> Problem:
    path: KeyPath = detail["loc"]
    line = document.line_of(path)
    if detail["type"] == "extra_forbidden":
        message, next_step = _unknown_key(model, path)
        return Problem(file, line, message, next_step=next_step)
    if detail["type"] == "missing":
        return Problem(file, line, f"'{_dotted(path)}' is missing")
    known = path
    while known and known not in document.lines:
        known = known[:-1]
    words = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if detail["type"] == "value_error":
        return Problem(file, line, f"'{_dotted(known)}': {words}" if known else words)
    for theirs, ours in _WORDS:
        words = words.replace(theirs, ours)
    words = words[:1].lower() + words[1:]
    given = detail["input"]
    next_step = _QUOTES if detail["type"] == "string_type" and isinstance(given, bool | int | float) else None
    return Problem(file, line, f"'{_dotted(known)}' {words}, not {_shown(given)}", next_step=next_step)


def _unknown_key(model: type[BaseModel], path: KeyPath) -> tuple[str, str | None]:
    key, around = str(path[-1]), path[:-1]
    kind = "toolset" if around == ("toolsets",) else "key"
    message = f"unknown {kind} '{key}'" + (f" in '{_dotted(around)}'" if around else "")
    annotation: Any = model
    for part in around:
        annotation = _inside(annotation, part)
    fields = getattr(_model_in(annotation), "model_fields", {}).items()
    # A field with one value only tells kinds of values apart: people do not write it.
    allowed = sorted(
        name for name, one in fields if get_origin(one.annotation) is not Literal or len(get_args(one.annotation)) > 1
    )
    if not allowed:
        return f"{message}; nothing can be set there", None
    return f"{message}; allowed: {', '.join(allowed)}", did_you_mean(key, allowed)


def _inside(annotation: Any, part: str | int) -> Any:
    """Return the type of what stands at a key or place within a value of this type; None where nothing can."""
    inner = _model_in(annotation)
    if inner is not None and str(part) in inner.model_fields:
        return inner.model_fields[str(part)].annotation
    if inner is not None:  # a name of the author's choice
        is_open = inner.model_config.get("extra") == "allow"
        annotation = get_type_hints(inner).get("__pydantic_extra__") if is_open else None
    kinds, place = ((tuple, list), 0) if isinstance(part, int) and inner is None else ((dict,), 1)
    return next((get_args(one)[place] for one in _options(annotation) if get_origin(one) in kinds), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    kinds = (one for one in _options(annotation) if isinstance(one, type))
    return next((one for one in kinds if issubclass(one, BaseModel)), None)


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return {"dict": "keys and values", "list": "a list"}.get(type(cast("Any", value)).__name__, "empty")
    text = "true" if value is True else "false" if value is False else str(value)
    return f"'{text[:60]}'"
