"""Entries of `approvals: allow:`, put into the text of a `workshop.yaml` that keeps its comments, order and style.

PyYAML's nodes say where the text of each value ends, so the entries are added there and nothing else is touched. What
comes out is read again: a text in which anything else would change is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from llm_do_temporal.definitions.yaml.lines import parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.hidden_characters import hidden_marks
from llm_do_temporal.workshop_search import WORKSHOP_FILE

_APPROVALS = "approvals"
_ALLOW = "allow"
_WIDTH = 110
"""Characters after which long lists are broken."""


def with_allow_entries(text: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a `workshop.yaml` with more entries at the end of `approvals: allow:`.

    Raises UsageError where the text is no valid YAML, or is written in a way that has no place for them.
    """
    before, problems = parse_yaml(text, file=WORKSHOP_FILE)
    if problems:
        raise UsageError(f"{problems[0]}", next_step=f"Mend {WORKSHOP_FILE} first; `check` lists all that is wrong.")
    if not entries:
        return text
    changed = _changed(text, entries)
    after, wrong = parse_yaml(changed, file=WORKSHOP_FILE)
    if wrong or after.value != _expected(before.value, entries):
        raise _no_place()
    return changed


def entries_text(entries: Sequence[Mapping[str, Any]], indent: int = 0) -> str:
    """Return the entries as a YAML list, each line after `indent` spaces; hidden characters are written as escapes."""
    text = _dumped(entries, width=_WIDTH)
    return "".join(f"{' ' * indent}{line}\n" for line in text.split("\n"))


def _dumped(entries: Sequence[Mapping[str, Any]], **style: Any) -> str:
    plain = [_plain(entry) for entry in entries]
    has_hidden = any(hidden for _, hidden in hidden_marks(json.dumps(plain, ensure_ascii=False)))
    style = {"default_flow_style": False, "sort_keys": False, "allow_unicode": not has_hidden, **style}
    return cast("str", yaml.dump(plain, Dumper=_Dumper, **style)).strip()


class _Dumper(yaml.SafeDumper):
    """Writer of entries: each key on a line of its own, lists of examples in brackets."""

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        """See SafeRepresenter."""
        node = super().represent_list(data)
        node.flow_style = self.default_flow_style or all(isinstance(one, yaml.ScalarNode) for one in node.value)
        return node


_Dumper.add_representer(list, _Dumper.represent_list)


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with lists and text instead of what JSON writes like them."""
    return cast("dict[str, Any]", json.loads(json.dumps(entry)))


@dataclass(frozen=True)
class _Change:
    """Replacement of a part of the text."""

    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        """Return the text with the replacement."""
        return text[: self.start] + self.text + text[self.end :]


def _changed(text: str, entries: Sequence[Mapping[str, Any]]) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        start = text if not text or text.endswith("\n") else text + line_end
        return start + _lines(f"{_APPROVALS}:\n  {_ALLOW}:\n{entries_text(entries, 4)}", line_end)
    pair = _pair(root, _APPROVALS)
    if pair is None:
        indent = _column(root)
        added = f"{' ' * indent}{_APPROVALS}:\n{' ' * (indent + 2)}{_ALLOW}:\n{entries_text(entries, indent + 4)}"
        return _insertion(text, root, indent, added, line_end).apply(text)
    key, approvals = pair
    if _is_empty(approvals, key):
        indent = _column_of(key) + 2
        added = f"{' ' * indent}{_ALLOW}:\n{entries_text(entries, indent + 2)}"
        return _replacing(text, key, approvals, added, line_end)
    inner = _pair(approvals, _ALLOW)
    if _is_flow(approvals):
        return _in_flow(text, approvals, inner, entries)
    if inner is None:
        indent = _column(approvals)
        added = f"{' ' * indent}{_ALLOW}:\n{entries_text(entries, indent + 2)}"
        return _insertion(text, approvals, indent, added, line_end).apply(text)
    key, allow = inner
    if _is_empty(allow, key):
        return _replacing(text, key, allow, entries_text(entries, _column_of(key) + 2), line_end)
    if _is_flow(allow):
        return _flow_items(allow, entries).apply(text)
    if not isinstance(allow, yaml.SequenceNode) or _is_alias(allow, key):
        raise _no_place()
    indent = int(allow.start_mark.column)
    return _insertion(text, allow, indent, entries_text(entries, indent), line_end).apply(text)


def _in_flow(
    text: str, approvals: yaml.Node, inner: tuple[yaml.Node, yaml.Node] | None, entries: Sequence[Mapping[str, Any]]
) -> str:
    """Return the text with entries in `approvals: {…}`."""
    if inner is None:
        added = f", {_ALLOW}: {_flow(entries)}"
        end = int(approvals.end_mark.index) - 1
        return _Change(end, end, added).apply(text)
    key, allow = inner
    if _is_alias(allow, key) or not isinstance(allow, yaml.SequenceNode):
        raise _no_place()
    return _flow_items(allow, entries).apply(text)


def _flow_items(allow: yaml.Node, entries: Sequence[Mapping[str, Any]]) -> _Change:
    """Return the addition of entries before the closing bracket of a list."""
    end = int(allow.end_mark.index) - 1
    added = _flow(entries)[1:-1]
    return _Change(end, end, f", {added}" if allow.value else added)


def _flow(entries: Sequence[Mapping[str, Any]]) -> str:
    return _dumped(entries, default_flow_style=True, width=float("inf"))


def _insertion(text: str, node: yaml.Node, indent: int, added: str, line_end: str) -> _Change:
    """Return the addition of lines below the last line of a block; comments of that block stay above them."""
    end = _last_index(node)
    # A text of several lines takes the end of its last line along.
    at = end if text[end - 1 : end] == "\n" else _line_after(text, end)
    while _is_comment(line := text[at : _line_after(text, at)]) and len(line) - len(line.lstrip(" ")) >= indent:
        at = _line_after(text, at)
    needs_end = at > 0 and text[at - 1] != "\n"
    return _Change(at, at, (line_end if needs_end else "") + _lines(added, line_end))


def _replacing(text: str, key: yaml.Node, value: yaml.Node, added: str, line_end: str) -> str:
    """Return the text with lines below a key whose value says nothing (`null`, `{}`, `[]`), in its place."""
    start, end = int(value.start_mark.index), int(value.end_mark.index)
    if end > start:
        text = text[:start].rstrip(" ") + text[end:]
    at = _line_after(text, int(key.end_mark.index))
    needs_end = text[at - 1] != "\n"
    return text[:at] + (line_end if needs_end else "") + _lines(added, line_end) + text[at:]


def _expected(value: Any, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = cast("dict[str, Any]", value or {})
    approvals = cast("dict[str, Any]", whole.get(_APPROVALS) or {})
    allow = [*(approvals.get(_ALLOW) or ()), *map(_plain, entries)]
    return {**whole, _APPROVALS: {**approvals, _ALLOW: allow}}


def _pair(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return key and value of a mapping; None where it has no such key."""
    if not isinstance(node, yaml.MappingNode):
        raise _no_place()
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    return next((pair for pair in pairs if pair[0].value == name), None)


def _is_empty(node: yaml.Node, key: yaml.Node) -> bool:
    if _is_alias(node, key):
        raise _no_place()
    is_null = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")
    return is_null or (isinstance(node, yaml.CollectionNode) and not node.value)


def _is_alias(node: yaml.Node, key: yaml.Node) -> bool:
    """Return whether the value stands elsewhere, where it is named by an anchor."""
    return int(node.start_mark.index) < int(key.end_mark.index)


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _column(node: yaml.Node) -> int:
    """Return the column of a mapping's keys."""
    if _is_flow(node) or not node.value:
        raise _no_place()
    return _column_of(node.value[0][0])


def _column_of(node: yaml.Node) -> int:
    return int(node.start_mark.column)


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


def _is_comment(line: str) -> bool:
    return line.lstrip(" ").startswith("#")


def _lines(text: str, line_end: str) -> str:
    return text.replace("\n", line_end)


def _no_place() -> UsageError:
    return UsageError(
        f"{WORKSHOP_FILE} is written in a way that has no place for more entries of `approvals: {_ALLOW}:`",
        next_step=f"Write `approvals:` and `{_ALLOW}:` as plain blocks, each key on a line of its own, and try again.",
    )
