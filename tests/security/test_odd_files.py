"""Odd names, and what is no file behind them: a call reaches the file that it names, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import LlmDoError
from tests.support.workshops.file_tree import Files

SECRET = "outside of the workshop"
NAMES: dict[str, str] = {
    "colon": "a:b",
    "drive": "C:file.txt",
    "stream": "a.txt:hidden",
    "line break": "new\nline.txt",
    "carriage return": "new\rline.txt",
    "tab": "tab\there.txt",
    "escape": "\x1b[2Jclear.txt",
    "picture": "emoji 😀.txt",
    "space behind": "trailing.txt ",
    "space before": " leading.txt",
    "dot behind": "trailing.",
    "dots": "...",
    "option": "-rf.txt",
    "home": "~root.txt",
    "command": "$(id).txt",
    "variable": "${HOME}.txt",
    "quotes": "quo\"te's`.txt",
    "pattern": "star*?[x].txt",
    "way back on another system": "..\\..\\secret.txt",
    "escaped way back": "%2e%2e%2fsecret.txt",
    "wide way back": "..\uff0fsecret.txt",
    "one dot leader": "\u2024\u2024",
    "right to left": "rtl\u202etxt.exe",
    "no width": "zero\u200bwidth.txt",
    "separator of lines": "two\u2028lines.txt",
    "mark": "\ufeffmark.txt",
    "composed": "caf\u00e9.txt",
    "decomposed": "cafe\u0301.txt",
    "device of another system": "CON",
    "255 bytes": "n" * 251 + ".txt",
    "255 bytes of two": "\u00fc" * 125 + "n.txt",
}


def _linked(file: Path, target: Path | str) -> None:
    file.symlink_to(target)


def _socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        # An address may have 108 bytes only.
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            opened.bind(f"/proc/self/fd/{folder}/.made")
            (file.parent / ".made").rename(file)
        finally:
            os.close(folder)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link out": lambda file, outside: _linked(file, outside / "secret.txt"),
    "link up": lambda file, outside: _linked(file, f"../{outside.name}/secret.txt"),
    "link to a folder outside": lambda file, outside: _linked(file, outside),
    "link to itself": lambda file, _: _linked(file, file.name),
    "link to a process": lambda file, _: _linked(file, "/proc/self/environ"),
    "pipe": lambda file, _: os.mkfifo(file),
    "socket": lambda file, _: _socket(file),
    "folder": lambda file, _: file.mkdir(),
}
CALLS: dict[str, Callable[[Files, str], object]] = {
    "read": lambda files, path: files.read(path),
    "write": lambda files, path: files.write(path, "overwritten"),
    "edit": lambda files, path: files.edit(path, "outside", "overwritten"),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """The folder beside the workshop, with a file that no call may reach."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The files of a workshop in which nothing is yet."""
    (tmp_path / "workshop").mkdir()
    return Files(tmp_path / "workshop")


@pytest.mark.sampled(93)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file_is_refused_whatever_its_name(
    files: Files, outside: Path, name: str, kind: str, call: str
) -> None:
    KINDS[kind](files.workshop / NAMES[name], outside)
    before = os.lstat(files.workshop / NAMES[name])
    with pytest.raises((ApplicationError, LlmDoError)) as refused:
        CALLS[call](files, f"/{NAMES[name]}")
    words = str(refused.value)
    assert f"/{NAMES[name]}" in words
    assert str(files.workshop) not in words
    assert SECRET not in words
    assert (outside / "secret.txt").read_text() == SECRET
    assert [entry.name for entry in outside.iterdir()] == ["secret.txt"]
    assert os.lstat(files.workshop / NAMES[name]).st_ino == before.st_ino


@pytest.mark.parametrize("name", NAMES)
def test_a_file_among_others_of_like_names_is_the_one_that_is_named(files: Files, outside: Path, name: str) -> None:
    for one, odd in NAMES.items():
        files.put(odd, one)
    (files.workshop.parent / "secret.txt").write_text(SECRET)
    path = f"/{NAMES[name]}"
    assert path in files.names()
    assert files.read(path).content == name
    files.edit(path, name, "edited")
    files.write(path, "written")
    assert {odd: (files.workshop / odd).read_text() for odd in NAMES.values()} == {
        **{odd: one for one, odd in NAMES.items()},
        NAMES[name]: "written",
    }
    assert (files.workshop.parent / "secret.txt").read_text() == SECRET
