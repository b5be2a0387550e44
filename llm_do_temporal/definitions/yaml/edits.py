"""Texts of YAML that people and this program change: places of keys in them, and items put at the end of a list.

Places are known also in a text that is broken farther down: editors ask while people write. Items are added where
PyYAML's nodes say that a value ends, and nothing else is touched; what comes out is read again, and a text in which
anything else would change is refused.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, cast

import yaml

from llm_do_temporal.definitions.yaml.documents import MAX_DEPTH, MAX_VALUES, KeyPath, parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.hidden_characters import hidden_marks

Role = Literal["key", "value"]


@dataclass(frozen=True)
class TextPlace:
    """Place between two characters; both numbers count from 0, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Span:
    """Key, or single value, and where its text stands."""

    path: KeyPath
    """Path of the key itself, or of the value."""
    role: Role
    text: str
    start: int
    end: int
    """Offsets of its text; with the quotes, where it has any."""
    exact: tuple[int, int] | None
    """Offsets between which the text stands letter by letter; None where it is written in another way."""
    is_block: bool = False
    """Whether it is written below `|` or `>`."""

    def holds(self, offset: int) -> bool:
        """Return whether a place is within, or at either end."""
        return self.start <= offset <= self.end


class Offsets:
    """Offsets in a text, as lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._size = len(text)

    def spot(self, offset: int) -> TextPlace:
        """Return the place of an offset."""
        line = bisect_right(self._starts, offset) - 1
        return TextPlace(line, offset - self._starts[line])

    def offset(self, spot: TextPlace) -> int:
        """Return the offset of a place; of one below the text, its end."""
        return self._size if spot.line >= len(self._starts) else min(self._starts[spot.line] + spot.column, self._size)


def spans(text: str) -> list[Span]:
    """Return the keys and single values of a document, as far down as it can be read."""
    return list(walk(text))


def walk(text: str) -> Iterator[Span]:
    """Yield the keys and single values of a document in order; ends at a mistake, and where it is too deep or long."""
    try:
        events = _events(text)
        for event in events:
            yield from _spans_of(event, events, text, (), "value")
    except (yaml.YAMLError, ValueError):
        return


def _events(text: str) -> Iterator[Any]:
    """Yield the parser's events one by one: nothing is built, and aliases are not followed."""
    for number, event in enumerate(cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader))):
        if number > MAX_VALUES:
            raise ValueError("too long")
        yield event


def _spans_of(event: Any, events: Iterator[Any], text: str, path: KeyPath, role: Role) -> Iterator[Span]:
    """Yield the keys and single values of the value that begins with an event, and take its other events."""
    if len(path) > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(event, yaml.ScalarEvent):
        yield _span(event, text, path, role)
    elif isinstance(event, yaml.SequenceStartEvent):
        for number in count():
            item = next(events)
            if isinstance(item, yaml.SequenceEndEvent):
                return
            yield from _spans_of(item, events, text, (*path, number), "value")
    elif isinstance(event, yaml.MappingStartEvent):
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            # Keys and values as a key: no definition has any.
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarEvent) else "")
            yield from _spans_of(key, events, text, inner, "key")
            yield from _spans_of(next(events), events, text, inner, "value")


def _span(event: yaml.ScalarEvent, text: str, path: KeyPath, role: Role) -> Span:
    value = str(event.value)
    start, end = (int(cast("yaml.Mark", mark).index) for mark in (event.start_mark, event.end_mark))
    written = text[start:end]
    is_block = event.style in ("|", ">")
    if is_block:
        return Span(path, role, value, start, end, None, is_block=True)
    # An anchor, and a tag, stand before the text.
    for quote in ("", "'", '"'):
        whole = f"{quote}{value}{quote}"
        if value and written.endswith(whole):
            begin = end - len(whole)
            return Span(path, role, value, begin, end, (begin + len(quote), end - len(quote)))
    return Span(path, role, value, start, end, None)


_WORD = re.compile(r"[^\s\[\]{},\"'#]*$")
_REST = re.compile(r"[^\s\[\]{},\"'#:]*")
_MARK = "␟"
"""Sign in the place of the word; the sign for a separator, which no key has."""
_MAX_LINES = 2_000
"""Lines above the place that are looked at."""


@dataclass(frozen=True)
class Cursor:
    """Place in YAML that is being written."""

    around: KeyPath | None
    """Path of the keys and values of which a key may stand here; None where none may."""
    value: KeyPath | None
    """Path of the value that may stand here; None where none may."""
    word: str
    """Beginning of the word that is there already."""
    start: int
    end: int
    """Columns of the whole word, in characters."""
    has_colon: bool
    """Whether a colon comes behind the word."""


def cursor_at(lines: Sequence[str], spot: TextPlace) -> Cursor | None:
    """Return what may be written at a place; None where it is a comment, a long text, or cannot be told."""
    line = lines[spot.line] if spot.line < len(lines) else ""
    before, behind = line[: spot.column], line[spot.column :]
    found = _WORD.search(before)
    word = found.group() if found else ""
    start = len(before) - len(word)
    rest = _REST.match(behind)
    end = spot.column + (len(rest.group()) if rest else 0)
    above = _around(lines, spot.line, before)
    key = _path_of([*above, f"{before[:start]}{_MARK}: "], "key")
    value = _path_of([*above, f"{before[:start]}{_MARK}"], "value")
    if key is None and value is None:
        return None
    return Cursor(key, value, word, start, end, line[end:].lstrip().startswith(":"))


def _around(lines: Sequence[str], number: int, before: str) -> list[str]:
    """Return the lines that the line is inside of, from the outermost."""
    limit, is_item = _indent(before) if before.strip() else len(before), _is_item(before)
    found: list[str] = []
    for line in reversed(lines[max(number - _MAX_LINES, 0) : number]):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        here = _indent(line)
        # A list may stand as far left as its key.
        if here < limit or (here == limit and is_item and not _is_item(line)):
            found.append(line)
            limit, is_item = here, _is_item(line)
            if here == 0 and not is_item:
                break
    return found[::-1]


def _path_of(lines: Sequence[str], role: str) -> KeyPath | None:
    for span in walk("\n".join(lines)):
        if span.text == _MARK and span.role == role and not span.is_block:
            return span.path[:-1] if role == "key" else span.path
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(line: str) -> bool:
    return line.lstrip().startswith("- ") or line.strip() == "-"


_WIDTH = 110
"""Characters after which long lists are broken."""
_STEP = 2
"""Spaces by which the inside of a block stands farther right."""
Items = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ListPlace:
    """Place of a list in a file."""

    file: str
    """Name of the file, for errors."""
    keys: tuple[str, ...]
    """Keys that lead to the list, from the outermost."""

    @property
    def words(self) -> str:
        """The keys, as people write them: `approvals: allow:`."""
        return " ".join(f"{key}:" for key in self.keys)

    def with_items(self, text: str, items: Items) -> str:
        """Return the text of the file with more items at the end of the list, which may be missing.

        Raises UsageError where the text is no valid YAML, or is written in a way that has no place for them.
        """
        before, problems = parse_yaml(text, file=self.file)
        if problems:
            raise UsageError(f"{problems[0]}", next_step=f"Mend {self.file} first; `check` lists all that is wrong.")
        if not items:
            return text
        try:
            changed = _changed(text, self.keys, items)
        except _NoPlace as error:
            raise self._no_place() from error
        after, wrong = parse_yaml(changed, file=self.file)
        if wrong or after.value != _expected(before.value, self.keys, items):
            raise self._no_place()
        return changed

    def _no_place(self) -> UsageError:
        names = " and ".join(f"`{key}:`" for key in self.keys)
        blocks = "plain blocks, each key" if len(self.keys) > 1 else "a plain block, each item"
        return UsageError(
            f"{self.file} is written in a way that has no place for more entries of `{self.words}`",
            next_step=f"Write {names} as {blocks} on a line of its own, and try again.",
        )


class _NoPlace(Exception):
    """The text is written in a way that has no place for items."""


def items_text(items: Items, indent: int = 0) -> str:
    """Return the items as a YAML list, each line after `indent` spaces; hidden characters are written as escapes."""
    text = _dumped([_plain(item) for item in items], default_flow_style=False, width=_WIDTH)
    return "".join(f"{' ' * indent}{line}\n" if line else "\n" for line in text.split("\n"))


def _dumped(plain: Any, **style: Any) -> str:
    has_hidden = any(hidden for _, hidden in hidden_marks(json.dumps(plain, ensure_ascii=False)))
    return cast("str", yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=not has_hidden, **style)).strip()


class _Dumper(yaml.SafeDumper):
    """Writer of items: each key on a line of its own, lists of examples in brackets, long texts line by line."""

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        """See SafeRepresenter."""
        node = super().represent_list(data)
        node.flow_style = self.default_flow_style or all(isinstance(one, yaml.ScalarNode) for one in node.value)
        return node

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """See SafeRepresenter."""
        is_block = "\n" in data and not data.endswith("\n\n") and data.strip() != ""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if is_block else None)


_Dumper.add_representer(list, _Dumper.represent_list)
_Dumper.add_representer(str, _Dumper.represent_str)


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item with lists and text instead of what JSON writes like them."""
    return cast("dict[str, Any]", json.loads(json.dumps(item)))


def _changed(text: str, keys: tuple[str, ...], items: Items) -> str:
    """Return the text with the items. Raises _NoPlace."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return _with_lines(text, len(text), _block(keys, items, 0))
    for place, name in enumerate(keys):
        pair = _pair(node, name)
        if pair is None:
            return _with_end(text, node, keys[place:], items)
        key, value = pair
        if value.start_mark.index < key.end_mark.index:
            raise _NoPlace  # an alias: it stands elsewhere, where an anchor names it
        if not _is_flow(node) and _is_empty(value):
            return _replacing(text, key, value, _block(keys[place + 1 :], items, key.start_mark.column + _STEP))
        node = value
    if not isinstance(node, yaml.SequenceNode):
        raise _NoPlace
    return _with_end(text, node, (), items)


def _block(keys: tuple[str, ...], items: Items, indent: int) -> str:
    """Return the lines of keys, one inside the other, and the items in the last one."""
    heads = "".join(f"{' ' * (indent + place * _STEP)}{key}:\n" for place, key in enumerate(keys))
    return heads + items_text(items, indent + len(keys) * _STEP)


def _with_end(text: str, node: yaml.Node, keys: tuple[str, ...], items: Items) -> str:
    """Return the text with keys, and the items in the last of them, at the end of a mapping or a list."""
    if _is_flow(node):
        end = int(node.end_mark.index) - 1
        added: Any = [_plain(item) for item in items]
        for key in reversed(keys):
            added = {key: added}
        inner = _dumped(added, default_flow_style=True, width=float("inf"))[1:-1]
        return text[:end] + (f", {inner}" if node.value else inner) + text[end:]
    indent = int((node.value[0][0] if isinstance(node, yaml.MappingNode) else node).start_mark.column)
    end = _last_index(node)
    # A text of several lines takes the end of its last line along.
    at = end if text[end - 1 : end] == "\n" else _line_after(text, end)
    # Comments of the block stay above what is added to it.
    while (line := text[at : _line_after(text, at)]).lstrip(" ").startswith("#"):
        if len(line) - len(line.lstrip(" ")) < indent:
            break
        at = _line_after(text, at)
    return _with_lines(text, at, _block(keys, items, indent))


def _replacing(text: str, key: yaml.Node, value: yaml.Node, added: str) -> str:
    """Return the text with lines below a key whose value says nothing (`null`, `{}`, `[]`), in its place."""
    start, end = int(value.start_mark.index), int(value.end_mark.index)
    if end > start:
        text = text[:start].rstrip(" ") + text[end:]
    return _with_lines(text, _line_after(text, int(key.end_mark.index)), added)


def _with_lines(text: str, at: int, added: str) -> str:
    """Return the text with lines at a place, with the line ends that the text has."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    needs_end = at > 0 and text[at - 1] != "\n"
    return text[:at] + (line_end if needs_end else "") + added.replace("\n", line_end) + text[at:]


def _expected(value: Any, keys: tuple[str, ...], items: Items) -> Any:
    if not keys:
        return [*(value or ()), *map(_plain, items)]
    whole = cast("dict[str, Any]", value or {})
    return {**whole, keys[0]: _expected(whole.get(keys[0]), keys[1:], items)}


def _pair(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return key and value of a mapping; None where it has no such key."""
    if not isinstance(node, yaml.MappingNode):
        raise _NoPlace
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return next((pair for pair in pairs if pair[0].value == name), None)


def _is_empty(node: yaml.Node) -> bool:
    is_null = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")
    return is_null or (isinstance(node, yaml.CollectionNode) and not node.value)


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _last_index(node: yaml.Node) -> int:
    """Return where the text of a block ends: a block's own end mark is that of whatever follows it."""
    if isinstance(node, yaml.ScalarNode) or _is_flow(node) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    inner = cast("tuple[yaml.Node, ...]", last if isinstance(last, tuple) else (last,))
    return max(_last_index(one) for one in inner)


def _line_after(text: str, index: int) -> int:
    """Return the beginning of the line that follows this place in the text."""
    following = text.find("\n", index)
    return len(text) if following < 0 else following + 1
