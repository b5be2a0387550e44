"""Places in texts that are being written: keys around them, spans of what is there, columns in an editor's units."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from llm_do_temporal.extensions.lsp.edited_file import TextPlace, cursor_at, edited_file, spans
from llm_do_temporal.extensions.lsp.server import path_of, place_at, position_of

KeyPath = tuple[str | int, ...]


@pytest.mark.parametrize(
    ("text", "around", "value"),
    [
        ("|", (), ()),
        ("des|", (), ()),
        ("a: 1\nmod|", (), ()),
        ("model: an|", None, ("model",)),
        ("model: |", None, ("model",)),
        ("toolsets:\n  del|", ("toolsets",), ("toolsets",)),
        ("toolsets:\n  filesystem: {}\n  |", ("toolsets",), ("toolsets",)),
        ("toolsets: {filesystem: {}, de|}", ("toolsets",), None),
        ("a:\n  b: [x, y|]", ("a", "b", 1), ("a", "b", 1)),
        ("notify:\n- to: x\n  ch|", ("notify", 0), None),
        ("cases:\n  - name: a\n    inp|", ("cases", 0), None),
        # A neighbour that is broken does no harm.
        ("broken: [\ntoolsets:\n  cus|", ("toolsets",), ("toolsets",)),
        ("toolsets:\n  x: 'no end\n  cus|", ("toolsets",), ("toolsets",)),
    ],
)
def test_what_may_be_written_is_known_where_it_is_written(
    text: str, around: KeyPath | None, value: KeyPath | None
) -> None:
    cursor = at_mark(text)
    assert cursor is not None
    assert (cursor.around, cursor.value) == (around, value)


@pytest.mark.parametrize("text", ["# co|", 'x: "no|', "\ttab|", "a: >\n  long te|", "a: {{{: ]|"])
def test_nothing_is_offered_where_nothing_can_be_told(text: str) -> None:
    assert at_mark(text) is None


def at_mark(text: str):
    before, _, behind = text.rpartition("|")
    lines = (before + behind).split("\n")
    return cursor_at(lines, TextPlace(before.count("\n"), len(before.rpartition("\n")[2])))


def test_what_stands_above_a_mistake_is_known() -> None:
    found = [(one.path, one.role, one.text) for one in spans("a: 'x'\nb: [1, &q foo, *q]\nc: {d: e}\nf: [}\ng: 1\n")]
    assert (("b", 1), "value", "foo") in found
    assert (("c", "d"), "key", "d") in found
    assert not any(path == ("g",) for path, _, _ in found)


@pytest.mark.parametrize(
    ("written", "exact"), [("foo", "foo"), ("'foo'", "foo"), ('"foo"', "foo"), ("&a foo", "foo"), ('"f\\u006fo"', None)]
)
def test_the_text_of_a_value_is_found_within_its_quotes(written: str, exact: str | None) -> None:
    text = f"key: {written} # foo"
    (value,) = [one for one in spans(text) if one.role == "value"]
    assert value.text == "foo"
    assert (text[slice(*value.exact)] if value.exact else None) == exact


@pytest.mark.parametrize(
    ("encoding", "character", "column"),
    [("utf-16", 3, 2), ("utf-16", 4, 3), ("utf-8", 5, 2), ("utf-32", 2, 2), ("utf-16", 99, 4), ("utf-16", 2, 1)],
)
def test_columns_are_counted_in_the_editors_units(encoding: str, character: int, column: int) -> None:
    assert place_at(["a😀bc"], types.Position(0, character), encoding) == TextPlace(0, column)


def test_places_beyond_the_text_are_its_end() -> None:
    assert place_at(["ab", "c"], types.Position(9, 9), "utf-16") == TextPlace(1, 1)
    assert position_of(["ab"], TextPlace(5, 3), "utf-16") == types.Position(5, 0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_file_whatever_ends_them(tmp_path: Path, end: str) -> None:
    file = edited_file(tmp_path / "a.worker", end.join(["\ufeff---", "model: x", "---", "Read.", ""]))
    assert file is not None
    assert file.lines[1] == "model: x"
    assert file.span_at(TextPlace(1, 7)) == file.spans[1]
    assert file.body_line == 3


@pytest.mark.parametrize("uri", ["untitled:x.worker", "http://x/a.worker", "file://host/a.worker", "", "file:", "%00"])
def test_only_files_of_this_machine_have_a_path(uri: str) -> None:
    assert path_of(uri) is None
