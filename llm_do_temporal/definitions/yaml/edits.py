"""Texts of definitions that people change: items put at the end of a list.

Items are added where PyYAML's nodes say that a value ends, and nothing else is touched; what comes out is read again,
and a text in which anything else would change is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from llm_do_temporal.definitions.yaml.documents import parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.hidden_characters import hidden_marks

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
