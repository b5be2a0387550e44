"""What `start --each` and `--each-line` make of files and lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llm_do_temporal.cli.commands.batch import BatchFlags
from llm_do_temporal.client.batches import check_batch_size, items_of_files, items_of_lines, matching_files
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.batches import Batch, BatchItem
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.sandbox.listing import folders_in_words
from tests.support.rights import modes_count


@pytest.fixture
def decks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, in which we are."""
    for name in ("decks/b.pdf", "decks/a.pdf", "decks/notes.txt", "decks/old/c.pdf", "decks/.hidden.pdf"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["decks/*.pdf"], ["decks/a.pdf", "decks/b.pdf"]),
        (["decks/*"], ["decks/a.pdf", "decks/b.pdf", "decks/notes.txt"]),
        (["decks/**/*.pdf"], ["decks/a.pdf", "decks/b.pdf", "decks/old/c.pdf"]),
        (["decks/b.pdf", "./decks/*.pdf", "decks/../decks/a.pdf"], ["decks/a.pdf", "decks/b.pdf"]),
    ],
)
def test_files_are_found_from_here_sorted_and_each_once(decks: Path, patterns: list[str], names: list[str]) -> None:
    found = matching_files(patterns)
    assert [name for name, _ in found] == names
    assert [file.read_text() for _, file in found] == names


def test_files_from_elsewhere_are_called_by_what_tells_them_apart(decks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(decks / "decks" / "old")
    assert [name for name, _ in matching_files([f"{decks}/decks/**/*.pdf"])] == ["a.pdf", "b.pdf", "old/c.pdf"]


def test_a_link_to_a_folder_makes_no_file_count_twice(decks: Path) -> None:
    (decks / "decks" / "loop").symlink_to(".")
    (decks / "decks" / "old" / "up").symlink_to("..")
    (decks / "aside").symlink_to("decks/old")
    (decks / "decks" / "same.pdf").symlink_to("a.pdf")
    names = [name for name, _ in matching_files(["**/*.pdf"])]
    # A link to a file has a name of its own; somebody chose it.
    assert names == ["decks/a.pdf", "decks/b.pdf", "decks/old/c.pdf", "decks/same.pdf"]
    assert [name for name, _ in matching_files(["decks/old/*.pdf", "*/c.pdf", "aside/*.pdf"])] == ["aside/c.pdf"]


def test_a_file_whose_name_is_not_utf_8_fails_alone(decks: Path) -> None:
    Path(os.fsdecode(os.fsencode(decks) + b"/decks/gr\xfc\xdfe.pdf")).write_text("x")
    items, notes = items_of_files(matching_files(["decks/*.pdf"]), lambda _: ())
    assert [bool(item.unusable) for item in items] == [False, False, True]
    assert notes == ["the name of 'decks/gr\ufffd\ufffde.pdf' is not UTF-8; rename the file"]
    assert json.loads(items[2].model_dump_json())["name"] == "decks/gr\ufffd\ufffde.pdf"


@pytest.mark.parametrize("pattern", ["*.pdf", "decks/old", "gone/*"])
def test_a_pattern_that_matches_no_file_is_a_mistake(decks: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="matches no file here"):
        matching_files(["decks/*.pdf", pattern])


@pytest.mark.parametrize(
    ("pattern", "closed", "names"),
    [
        ("**/*.pdf", ["shut", "shut2"], ["decks/a.pdf", "decks/b.pdf", "decks/old/c.pdf"]),
        ("*/*.pdf", ["shut", "shut2"], ["decks/a.pdf", "decks/b.pdf"]),
        ("*/a.pdf", ["shut"], ["decks/a.pdf", "shut2/a.pdf"]),
        ("decks/*.pdf", [], ["decks/a.pdf", "decks/b.pdf"]),
        ("shut/*.pdf", ["shut"], None),
        ("shut/a.pdf", ["shut"], None),
    ],
)
def test_folders_that_may_not_be_read_are_told(
    decks: Path, capsys: pytest.CaptureFixture[str], pattern: str, closed: list[str], names: list[str] | None
) -> None:
    for name, mode in (("shut", 0), ("shut2", 0o100), (".shut", 0)):
        (decks / name).mkdir()
        (decks / name / "a.pdf").write_text("a")
        (decks / name).chmod(mode)
    words = f"permission to read was denied for {folders_in_words(closed)}"
    with modes_count():
        if names is None:
            with pytest.raises(UsageError) as refused:
                BatchFlags(each=(pattern,)).batch(lambda _: ())
            assert refused.value.message == f"--each '{pattern}' matches no file that can be found: {words}"
        else:
            batch = BatchFlags(each=(pattern,)).batch(lambda _: ())
            assert [item.name for item in batch.items if not item.unusable] == names if batch else False
            told = capsys.readouterr().err
            assert (words in told) == bool(closed)
            assert ".shut" not in told
        if closed:
            with pytest.raises(UsageError, match="permission to read was denied"):
                BatchFlags(each=(pattern,), strict_inputs=True).batch(lambda _: ())
    for name in ("shut", "shut2", ".shut"):
        (decks / name).chmod(0o700)


def test_files_of_a_folder_that_may_be_read_and_not_entered_are_found(decks: Path) -> None:
    (decks / "decks").chmod(0o400)
    with modes_count():
        names = [name for name, _ in matching_files(["decks/*"])]
    (decks / "decks").chmod(0o700)
    assert "decks/a.pdf" in names


def test_lines_are_prompts_or_json(tmp_path: Path) -> None:
    plain, lines = tmp_path / "ask.txt", tmp_path / "ask.jsonl"
    plain.write_text("one\n\n  {two}\n")
    lines.write_text('"one"\n{"deck": "a"}\n')
    assert items_of_lines(plain) == [
        BatchItem(name="ask.txt:1", prompt="one"),
        BatchItem(name="ask.txt:3", prompt="{two}"),
    ]
    assert items_of_lines(lines) == [
        BatchItem(name="ask.jsonl:1", prompt="one"),
        BatchItem(name="ask.jsonl:2", input={"deck": "a"}),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_lines_are_read_in_the_encoding_that_their_mark_names(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "ask.jsonl"
    file.write_text('"Müller"\r\n"zwei"\n', encoding=encoding, newline="")
    assert [item.prompt for item in items_of_lines(file)] == ["Müller", "zwei"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0c", "\x1c"])
def test_only_line_feeds_and_carriage_returns_end_lines_and_marks_are_left_out(tmp_path: Path, separator: str) -> None:
    plain, lines = tmp_path / "ask.txt", tmp_path / "ask.jsonl"
    plain.write_text(f"one{separator}half\r\ntwo\n", encoding="utf-8-sig", newline="")
    escaped = separator if separator > "\x7f" else "-"
    lines.write_text(f'"one{escaped}half"\r\n\ufeff{{"n": 1}}\n', encoding="utf-8-sig", newline="")
    assert [(item.name, item.prompt) for item in items_of_lines(plain)] == [
        ("ask.txt:1", f"one{separator}half"),
        ("ask.txt:2", "two"),
    ]
    assert items_of_lines(lines) == [
        BatchItem(name="ask.jsonl:1", prompt=f"one{escaped}half"),
        BatchItem(name="ask.jsonl:2", input={"n": 1}),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"n": 1}\n{"n": 1e999}\n', r"ask.jsonl:2: the line is not JSON: inf is no number"),
        (b'"one"\n{no\n3\n[\n', r"ask.jsonl:2: the line is not JSON: .*\n  .*ask.jsonl:4: the line is not JSON"),
        (
            b'"one"\nnull\n" "\n{}\n0\n""',
            r"^.*ask.jsonl:2: the line gives nothing: .*\n.*jsonl:3: .*\n.*jsonl:6: the line g.*$",
        ),
        (b"\n", "no lines"),
        (b"\xff", r"UTF-8 text \(line 1 has the byte 0xff\)"),
    ],
)
def test_lines_that_cannot_be_used_are_named(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "ask.jsonl"
    file.write_bytes(text)
    with pytest.raises(UsageError, match=said):
        items_of_lines(file)


@pytest.mark.parametrize(
    ("count", "kept_outside", "fits"), [(5000, False, True), (7000, False, False), (7000, True, True)]
)
def test_a_batch_that_cannot_be_carried_on_is_refused(count: int, kept_outside: bool, fits: bool) -> None:
    batch = Batch(items=tuple(BatchItem(name=f"n{number}") for number in range(count)))
    request = StartRunInput(worker="main", batch=batch)
    if fits:
        check_batch_size(request, kept_outside=kept_outside)
    else:
        with pytest.raises(UsageError, match="too large for one run"):
            check_batch_size(request, kept_outside=kept_outside)
