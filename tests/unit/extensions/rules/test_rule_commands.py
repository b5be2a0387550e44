"""`rules` and `rules suggest`: what people can get wrong, and the diff that other programs take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.extensions.rules.trial import unified_diff


def make(folder: Path, text: str = "sandbox: {root: .}\n") -> list[str]:
    """The flags of a workshop with this file."""
    (folder / "workshop.yaml").write_text(text, encoding="utf-8")
    return ["--workshop", str(folder)]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--since", "a month"], "--since a month: 'a month' is not a time; write it like 90s, 30m"),
        (["--since", "30"], "--since 30: '30' is not a time"),
        (
            ["--since", "999999999999d"],
            "'999999999999d' is too long; a time is at most 10000 days",
        ),
        (["--since", "9999999d"], "--since 9999999d: '9999999d' is too long"),
        (["--since", "٣d"], "--since ٣d: '٣d' is not a time"),
        (["--min-runs", "0"], "--min-runs 0 is not a number above zero"),
        (["--min-days", "-1"], "--min-days -1 is not a number above zero"),
    ],
)
def test_flags_that_cannot_be_used_are_said_before_a_server_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert run_command(["rules", "suggest", *flags, *make(tmp_path)]) == 2
    assert says in capsys.readouterr().err


def test_a_workshop_that_is_wrong_is_said_before_a_server_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["rules", "suggest", *make(tmp_path, "approvals: {allow: [{tool: shell}]}\n")]) == 8
    assert "workshop.yaml:1" in capsys.readouterr().err


def test_the_entries_of_a_workshop_are_listed_as_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "approvals:\n  allow:\n    - {command: 'git log -n {number}', callers: [coder], why: reads}\n"
    assert run_command(["rules", *make(tmp_path, text)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(None, 1) == [
        "1",
        "the command `git log -n {number}`, by coder  reads",
    ]


def test_a_workshop_without_entries_says_where_they_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["rules", *make(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "`llm-do-temporal rules suggest --workshop" in told.err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\n", "a\nx\nb\n"),
        ("a\nb", "a\nb\nc\n"),  # no line end before
        ("a\nb\n", "a\nb"),  # none after
        ("", "a\n"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("a\u2028b\x0c\n", "a\u2028b\x0c\nc\n"),  # line ends to Python, and to nobody else
    ],
)
@pytest.mark.parametrize("program", [["patch", "-s", "-p1", "--binary"], ["git", "apply"]])
def test_patch_and_git_make_of_the_diff_what_was_meant(
    tmp_path: Path, program: list[str], before: str, after: str
) -> None:
    file = tmp_path / "workshop.yaml"
    file.write_bytes(before.encode())
    subprocess.run(program, input=unified_diff(before, after).encode(), check=True, cwd=tmp_path)
    assert file.read_bytes() == after.encode()


def test_git_takes_it_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "workshop.yaml").write_text("a\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], check=True, cwd=tmp_path)
    subprocess.run(["git", "apply"], input=unified_diff("a\n", "a\nb\n"), text=True, check=True, cwd=folder)
    assert (folder / "workshop.yaml").read_text(encoding="utf-8") == "a\nb\n"


def test_nothing_changed_is_no_diff() -> None:
    assert unified_diff("a\n", "a\n") == ""
