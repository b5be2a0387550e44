"""What was shown is what is done: a file that changes meanwhile is asked about again, and stays as it is until then."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.policy.approvals import Mode
from tests.support.workflow.gated_calls import GatedFiles, Person, gated_files

OLD = "price: 1\nof: rope\n"
Change = Callable[[Path], object]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedFiles:
    workshop = tmp_path / "workshop"
    (workshop / "notes").mkdir(parents=True)
    (workshop / "notes/a.txt").write_text(OLD)
    (workshop / "other.txt").write_text("price: 1\nprecious\n")
    (tmp_path / "outside.txt").write_text("price: 1\nsecret\n")
    return gated_files(workshop, monkeypatch)


def put(text: str) -> Change:
    return lambda file: file.write_bytes(text.encode())


def same_times(text: str) -> Change:
    def change(file: Path) -> None:
        facts = file.stat()
        file.write_text(text)
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    return change


def exchanged(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("price: 1\nof: silk\n")
    new.replace(file)


def link_to(target: str) -> Change:
    def change(file: Path) -> None:
        file.unlink()
        file.symlink_to(target)

    return change


def hard_link(file: Path) -> None:
    file.unlink()
    os.link(file.parent.parent / "other.txt", file)


def folder_link(file: Path) -> None:
    file.parent.rename(file.parent.with_name("real"))
    (file.parent.with_name("real") / "a.txt").write_text("price: 1\nmoved\n")
    file.parent.symlink_to("real")


def other_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("real"))
    file.parent.mkdir()
    file.write_text("price: 1\nof: another folder\n")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


CHANGES: dict[str, Change] = {
    "other bytes": put("price: 1\nof: gold\nand more\n"),
    "other bytes, as many": put("price: 1\nof: gold\n"),
    "other bytes, as many, at the same time": same_times("price: 1\nof: gold\n"),
    "one more byte": put(OLD + "x"),
    "one more line end": put(OLD + "\n"),
    "one line end less": put(OLD.rstrip("\n")),
    "other line ends": put("price: 1\r\nof: rope\r\n"),
    "a mark before it": put("\ufeff" + OLD),
    "an invisible character": put("price: 1\nof: ro\u200bpe\n"),
    "other capitals": put("price: 1\nof: Rope\n"),
    "letters that look alike": put("price: 1\nof: r\u043epe\n"),
    "a large file": put("price: 1\n" + "of: rope\n" * 200_000),
    "exchanged whole": exchanged,
    "can be executed": lambda file: file.chmod(0o755),
    "can be read by nobody else": lambda file: file.chmod(0o600),
    "write-protected": lambda file: file.chmod(0o444),
    "a hard link to another": hard_link,
    "a link to another": link_to("../other.txt"),
    "a link out of the workshop": link_to("../../outside.txt"),
    "a link to nothing": link_to("nothing.txt"),
    "a link to itself": link_to("a.txt"),
    "behind a linked folder": folder_link,
    "in another folder of the same name": other_folder,
    "a folder": folder,
    "a pipe": fifo,
}
"""What can become of a file between being shown and being changed."""
CALLS: dict[str, dict[str, Any]] = {
    "write_file": {"path": "/notes/a.txt", "content": "price: 2\n"},
    "edit_file": {"path": "/notes/a.txt", "old_text": "price: 1", "new_text": "price: 2"},
}


def found(workshop: Path) -> dict[str, object]:
    """Everything there is beside our own state: kind, permissions and bytes."""
    facts: dict[str, object] = {}
    for path in sorted(one for one in workshop.parent.rglob("*") if ".llm-do" not in one.parts):
        mode = path.lstat().st_mode
        content = path.read_bytes() if stat.S_ISREG(mode) else None
        facts[str(path.relative_to(workshop.parent))] = (mode, content, path.readlink() if path.is_symlink() else "")
    return facts


@pytest.mark.sampled(34)
@pytest.mark.parametrize("when", ["asked", "allowed"])
@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("change", CHANGES)
async def test_what_has_changed_since_it_was_shown_stays_as_it_is(
    files: GatedFiles, change: str, tool: str, when: str
) -> None:
    states: list[dict[str, object]] = []

    def meanwhile() -> None:
        CHANGES[change](files.workshop / "notes/a.txt")
        states.append(found(files.workshop))

    person = Person(agrees=1, while_asked=meanwhile if when == "asked" else None)
    told = await files.call(person, tool, meanwhile if when == "allowed" else None, **CALLS[tool])
    assert found(files.workshop) == states[0]
    assert "Wrote" not in told


@pytest.mark.parametrize("path", ["/new.txt", "/notes/new.txt", "/deep/er/new.txt"])
@pytest.mark.parametrize("appears", ["", "precious", "price: 1\n", "\0"])
async def test_a_file_that_appears_where_a_new_one_was_shown_is_not_replaced(
    files: GatedFiles, path: str, appears: str
) -> None:
    file = files.workshop / path[1:]

    def meanwhile() -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(appears)

    person = Person(while_asked=meanwhile)
    await files.call(person, "write_file", path=path, content="mine")
    assert file.read_text() == appears
    assert len(person.asked) == 2


@pytest.mark.parametrize("path", ["/other.txt", "other.txt", "notes/../other.txt", "/./other.txt", "//other.txt"])
async def test_a_person_who_names_another_file_has_not_seen_what_it_holds(files: GatedFiles, path: str) -> None:
    person = Person(agrees=0, changes_to={"path": path, "content": "mine"})
    await files.call(person, "write_file", path="/new.txt", content="mine")
    assert (files.workshop / "other.txt").read_text() == "price: 1\nprecious\n"


@pytest.mark.parametrize("change", ["other bytes", "other bytes, as many", "exchanged whole", "can be executed"])
async def test_changed_arguments_are_for_the_file_that_was_shown(files: GatedFiles, change: str) -> None:
    file, states = files.workshop / "notes/a.txt", []

    def meanwhile() -> None:
        CHANGES[change](file)
        states.append(found(files.workshop))

    changed = {"path": "/notes/a.txt", "content": "changed"}
    person = Person(agrees=0, while_asked=meanwhile, changes_to=changed)
    await files.call(person, "write_file", path="/notes/a.txt", content="mine")
    assert [found(files.workshop)] == states
    assert person.asked[1][0].args == changed


@pytest.mark.parametrize("change", [one for one in CHANGES if "bytes" in one or "link" in one or "exchanged" in one])
async def test_other_bytes_than_were_asked_about_are_not_read(
    tmp_path: Path, files: GatedFiles, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    asking = gated_files(files.workshop, monkeypatch, read_approval=True)
    person = Person(while_asked=lambda: CHANGES[change](files.workshop / "notes/a.txt"))
    told = await asking.call(person, "read_file", path="/notes/a.txt")
    assert not any(word in told for word in ("gold", "precious", "secret", "silk", "moved"))


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_never_stands_still_ends_in_words(files: GatedFiles, tool: str) -> None:
    file, count = files.workshop / "notes/a.txt", 0

    class Restless(Person):
        async def ask(self, *given: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            file.write_text(f"{OLD}{count}")
            return await super().ask(*given, **more)

    person = Restless(agrees=1_000)
    told = await files.call(person, tool, **CALLS[tool])
    assert "was not carried out: each of the 5 times" in told
    assert (len(person.asked), file.read_text()) == (5, f"{OLD}5")


@pytest.mark.control
@pytest.mark.parametrize("tool", CALLS)
async def test_whoever_agrees_to_what_is_there_now_gets_it(files: GatedFiles, tool: str) -> None:
    file = files.workshop / "notes/a.txt"
    person = Person(agrees=2, while_asked=lambda: CHANGES["other bytes"](file))
    told = await files.call(person, tool, **CALLS[tool])
    assert told.startswith("Wrote /notes/a.txt")
    assert file.read_text().startswith("price: 2\n")
    assert [diff is not None and "gold" in diff for _, diff in person.asked] == [False, True]


@pytest.mark.control
@pytest.mark.parametrize("tool", CALLS)
async def test_the_change_that_was_agreed_to_is_done_where_it_is_there_already(files: GatedFiles, tool: str) -> None:
    """As after a crash between the write and the word of it."""
    file = files.workshop / "notes/a.txt"
    new = "price: 2\n" if tool == "write_file" else "price: 2\nof: rope\n"
    person = Person()
    told = await files.call(person, tool, lambda: file.write_text(new), **CALLS[tool])
    assert told == f"Wrote /notes/a.txt ({len(new)} bytes)."
    assert (len(person.asked), file.read_text()) == (1, new)


@pytest.mark.control
async def test_an_edit_that_could_be_made_twice_is_made_once(files: GatedFiles) -> None:
    file = files.workshop / "notes/a.txt"
    file.write_text("a")
    told = await files.call(
        Person(), "edit_file", lambda: file.write_text("aab"), path="/notes/a.txt", old_text="a", new_text="aab"
    )
    assert (told, file.read_text()) == ("Wrote /notes/a.txt (3 bytes).", "aab")


@pytest.mark.control
@pytest.mark.parametrize("tool", CALLS)
async def test_where_nobody_is_shown_anything_nothing_is_expected(files: GatedFiles, tool: str) -> None:
    files.mode = Mode.APPROVE_ALL
    file, person = files.workshop / "notes/a.txt", Person()
    told = await files.call(person, tool, lambda: CHANGES["other bytes"](file), **CALLS[tool])
    assert told.startswith("Wrote")
    assert person.asked == []


@pytest.mark.parametrize("forged", ["x\n@@ -1 +1 @@\n-good", "x\n+++ y", "\n"])
async def test_a_path_adds_no_line_to_the_change_that_is_shown(files: GatedFiles, forged: str) -> None:
    person = Person(agrees=0)
    await files.call(person, "write_file", path=f"/notes/{forged}", content="hi\n")
    lines = (person.asked[0][1] or "").splitlines()
    assert lines[0] == "--- /dev/null"
    assert lines[1].startswith('+++ /notes/"')
    assert lines[2:] == ["@@ -0,0 +1 @@", "+hi"]
