"""The files of a batch: those that cannot be used, and those that were mended when it is done again."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_do_temporal.client.batch_files import forget_files, remember_files, remembered_files, with_files_of_now
from llm_do_temporal.client.batches import items_of_files
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.batches import Batch, BatchItem
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.snapshots import guess_media_type


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
