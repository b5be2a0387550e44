"""What the items of a batch are made from, files of this machine that are remembered, and texts that people give."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from llm_do_temporal.cli.commands.batch import BatchFlags
from llm_do_temporal.cli.options import read_json
from llm_do_temporal.client.batches import (
    check_batch_size,
    forget_files,
    items_of_files,
    items_of_lines,
    matching_files,
    read_given,
    remember_files,
    remembered_files,
    with_files_of_now,
)
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.runs import Batch, BatchItem, StartRunInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.sandbox.listing import folders_in_words
from llm_do_temporal.storage.snapshots import guess_media_type
from llm_do_temporal.ui.access import read_token_file
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


def attach(files: Sequence[Path]) -> tuple[Attachment, ...]:
    """Take a file as a worker does that accepts no text files, and nothing that is empty."""
    (file,) = files
    if file.suffix == ".txt":
        raise UsageError(f"'{file.name}' has a suffix that worker 'w' does not accept")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"the file '{file}' cannot be opened: {error.strerror}") from error
    if not data:
        raise UsageError(f"the file '{file}' is empty")
    media_type = guess_media_type(file.name, data)
    return (
        Attachment(path=file.name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), media_type=media_type),
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Four files, two of which can be used."""
    contents = {"a.pdf": b"%PDF-a", "b.pdf": b"", "c.txt": b"text", "d.pdf": b"%PDF-d"}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return {name: tmp_path / name for name in contents}


def test_all_files_that_cannot_be_used_are_told_at_once_and_the_others_are_items(files: dict[str, Path]) -> None:
    items, notes = items_of_files(list(files.items()), attach)
    assert [(item.name, len(item.attachments), bool(item.unusable)) for item in items] == [
        ("a.pdf", 1, False),
        ("b.pdf", 0, True),
        ("c.txt", 0, True),
        ("d.pdf", 1, False),
    ]
    # The paths of this machine are in no history.
    assert notes == ["the file 'b.pdf' is empty", "'c.txt' has a suffix that worker 'w' does not accept"]


def test_where_no_file_can_be_used_that_is_a_mistake_with_every_reason(files: dict[str, Path]) -> None:
    bad = [(name, files[name]) for name in ("b.pdf", "c.txt")]
    with pytest.raises(UsageError, match=r"no file can be used:\n  .*is empty\n  'c.txt' has a suffix") as wrong:
        items_of_files(bad, attach)
    assert wrong.value.next_step == "Nothing was started."


def test_files_that_changed_are_taken_as_they_are_now_and_told(files: dict[str, Path]) -> None:
    items, _ = items_of_files(list(files.items()), attach)
    batch = Batch(items=tuple(items))
    files["a.pdf"].write_bytes(b"%PDF-mended")
    files["b.pdf"].write_bytes(b"%PDF-b")
    again, notes = with_files_of_now(batch, files, attach)
    assert notes == [
        "a.pdf: has changed since then, and is taken as it is now (6 bytes then, 11 now)",
        "b.pdf: could not be used then, and is taken now",
        "c.txt: still cannot be used: 'c.txt' has a suffix that worker 'w' does not accept",
    ]
    assert [item.attachments[0].bytes if item.attachments else 0 for item in again.items] == [11, 6, 0, 6]
    assert [item.unusable for item in again.items] == ["", "", items[2].unusable, ""]


def test_a_file_that_is_gone_or_not_known_here_stays_as_it_was(files: dict[str, Path]) -> None:
    items, _ = items_of_files([(name, files[name]) for name in ("a.pdf", "d.pdf")], attach)
    files["a.pdf"].unlink()
    files["d.pdf"].write_bytes(b"%PDF-mended")
    batch = Batch(items=(*items, BatchItem(name="line 1", prompt="x")))
    again, notes = with_files_of_now(batch, {"a.pdf": files["a.pdf"]}, attach)
    assert again == batch
    (note,) = notes
    assert note.startswith("a.pdf: taken as it was, for it cannot be used now: the file")


def test_files_are_remembered_beside_the_workshop_for_their_owner_until_the_run_is_deleted(tmp_path: Path) -> None:
    remember_files(tmp_path, "decks", {"a.pdf": tmp_path / "a.pdf"})
    assert remembered_files(tmp_path, "decks") == {"a.pdf": tmp_path / "a.pdf"}
    assert remembered_files(tmp_path, "../decks") == {}
    (kept,) = (tmp_path / ".llm-do" / "batches").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    kept.write_text('{"a.pdf": 3}', encoding="utf-8")
    assert remembered_files(tmp_path, "decks") == {}
    forget_files(tmp_path, "decks")
    forget_files(tmp_path, "decks")
    assert not kept.exists()


READERS: list[Callable[[Path], object]] = [
    items_of_lines,
    read_token_file,
    lambda path: read_json(f"@{path}", "--input"),
]


@pytest.mark.parametrize("read", READERS)
def test_a_file_without_end_is_refused_at_the_bound(read: Callable[[Path], object]) -> None:
    with pytest.raises(UsageError, match=r"'/dev/zero'.* has more than \d+ bytes"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize("read", READERS)
def test_text_of_another_encoding_is_named_with_its_place(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes("Name;Betrag\nMüller;1,5".encode("cp1252"))
    with pytest.raises(UsageError, match=r"export.csv'.* not UTF-8 text \(line 2 has the byte 0xfc\)") as raised:
        read(file)
    assert "iconv" in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_text_of_wide_characters_without_a_mark_is_refused(
    tmp_path: Path, read: Callable[[Path], object], encoding: str
) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes("eins\nzwei\n".encode(encoding))
    with pytest.raises(
        UsageError, match=r"lines.txt'.* not UTF-8 text \(line 1 has a NUL character, as UTF-16"
    ) as raised:
        read(file)
    assert "iconv -f UTF-16" in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
def test_an_archive_is_no_text_to_be_converted(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes(b"PK\x03\x04\x14\0\x06\0 [Content_Types].xml xl/workbook.xml \xff")
    with pytest.raises(UsageError, match=r"export.csv'.* no text, its content is .*spreadsheetml.sheet") as raised:
        read(file)
    assert "iconv" not in str(raised.value.next_step)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", ["gone", "a\0b", "folder/"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, read: Callable[[Path], object], name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_pipe_without_a_name_is_read_to_its_end_with_plain_newlines(encoding: str) -> None:
    out, into = os.pipe()
    text = "ü\r\n1\r2\n" * 50_000

    def write() -> None:
        with os.fdopen(into, "wb") as file:
            file.write(text.encode(encoding))

    writer = threading.Thread(target=write)
    writer.start()
    assert read_given(Path(f"/dev/fd/{out}"), "the pipe") == "ü\n1\n2\n" * 50_000
    writer.join()
    os.close(out)


@pytest.mark.parametrize("read", READERS)
def test_a_named_pipe_is_refused_at_once_though_nobody_writes_to_it(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UsageError, match=f"{name}'.* is a named pipe, and nobody may ever write to it"):
            read(tmp_path / name)


@pytest.mark.parametrize("read", READERS)
def test_a_file_whose_reading_fails_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "memory").symlink_to("/proc/self/mem")
    with pytest.raises(UsageError, match=r"memory'.* cannot be read: Input/output error"):
        read(tmp_path / "memory")


def test_as_many_bytes_as_are_allowed_are_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "full"
    file.write_bytes(b"x" * 10)
    assert read_given(file, "the file", most=10) == "x" * 10
    with pytest.raises(UsageError, match="the file has more than 9 bytes"):
        read_given(file, "the file", most=9)
