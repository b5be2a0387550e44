"""Folders that may not be read, in which a run that begins by itself looks for files."""

from __future__ import annotations

from pathlib import Path

from llm_do_temporal.messages.batches import InputFiles
from llm_do_temporal.messages.effects import ReadInputsInput
from llm_do_temporal.policy.files.attachments import AttachmentPolicy
from llm_do_temporal.sandbox.input_files import InputReader, measure
from tests.support.rights import modes_count


def test_a_folder_that_may_not_be_read_is_an_item_that_fails(tmp_path: Path) -> None:
    for name in ("inbox/open", "inbox/shut", "inbox/.shut", "other/shut"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text("a")
    shut = [tmp_path / name for name in ("inbox/shut", "inbox/.shut", "other/shut")]
    for folder in shut:
        folder.chmod(0)
    files = InputFiles(each=("inbox/**/*.txt",))
    asked = ReadInputsInput(files=files, policy=AttachmentPolicy(), worker="reader")
    with modes_count():
        found = InputReader(tmp_path, asked, measure).read()
    for folder in shut:
        folder.chmod(0o700)
    assert found.items is not None
    assert [(item.name, item.unusable) for item in found.items] == [
        ("inbox/open/a.txt", ""),
        ("inbox/shut/", "its files are not known, because permission to read was denied for the folder 'inbox/shut'"),
    ]
