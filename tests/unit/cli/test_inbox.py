from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal.inbox import Inbox, Selection, render_inbox
from llm_do_temporal.cli.terminal.prompts import Interrupt, parse_keys
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.open_questions import InboxContents, InboxEntry, LockedRun

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def entry(run: str, approval: str = "a1", summary: str = "write /a.txt", **more: object) -> InboxEntry:
    told = {"deadline": None, "votes": 0, "quorum": 1, "approvers": ()} | more
    return InboxEntry(
        run=run,
        run_worker="boss",
        started_by="ann",
        id=approval,
        worker="boss",
        path="main",
        tool="write_file",
        summary=summary,
        asked_at=NOW - timedelta(minutes=3),
        **told,  # pyright: ignore[reportArgumentType]
    )


def drawn(
    entries: list[InboxEntry],
    row: int = 0,
    height: int = 40,
    width: int = 120,
    locked: tuple[LockedRun, ...] = (),
    further: int = 0,
) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_inbox(entries, row, NOW, (width, height), locked=locked, further=further))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (b"j", ["j"]),
        (b"12\r", ["1", "2", "enter"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA\n", ["up", "enter"]),
        (b"\x1b[1;5C", ["\x1b[1;5C"]),  # a key that means nothing here is one key
        (b"", ["end"]),
        (b"\x04", ["end"]),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_bytes_of_a_terminal_are_keys(typed: bytes, meant: list[str]) -> None:
    assert parse_keys(typed) == meant


@pytest.mark.parametrize(
    ("keys", "row", "opened"),
    [
        (["j", "j", "k"], 1, False),
        (["down", "up", "up"], 0, False),
        (["j"] * 20, 11, False),
        (["k"], 0, False),
        (["j", "enter"], 1, True),
        (["7"], 6, True),  # of twelve only the first can be the beginning of another number
        (["1"], 0, False),
        (["1", "2"], 11, True),
        (["1", "enter"], 0, True),
        (["1", "j", "2"], 1, True),  # a number is forgotten once something else was typed
        (["0"], 0, False),
        (["?"], 0, False),
    ],
)
def test_keys_choose_and_open(keys: list[str], row: int, *, opened: bool) -> None:
    entries = [entry(f"run-{number}") for number in range(12)]
    choice = Selection()
    choice.follow(entries)
    pressed = [choice.press(key, entries) for key in keys]
    assert choice.row == row
    assert pressed == [*[False] * (len(keys) - 1), opened]


def test_the_choice_stays_with_its_entry_while_others_come_and_go() -> None:
    first, second, third = entry("r1"), entry("r2"), entry("r3")
    choice = Selection()
    choice.follow([first, second, third])
    choice.press("j", [first, second, third])
    choice.follow([second, third])
    assert choice.row == 0
    choice.follow([third])
    assert choice.row == 0
    choice.follow([])
    assert not choice.press("enter", [])


def test_the_list_says_who_asks_what_since_when_and_until_when() -> None:
    due = entry("r2", "a7", deadline=NOW + timedelta(hours=2), votes=1, quorum=2)
    lines = drawn([entry("r1"), due])
    assert lines[0].split() == ["#", "RUN", "FROM", "ASKED", "UNTIL", "ABOUT"]
    assert lines[1].split() == ["1", "r1", "a1", "main", "3m", "ago", "write", "/a.txt"]
    assert "r2 a7  main  3m ago  in 2h  1 of 2 agreed: write /a.txt" in lines[2]


def test_a_long_list_shows_what_is_around_the_choice() -> None:
    lines = drawn([entry(f"run-{number:02}") for number in range(40)], row=30, height=12)
    assert len(lines) <= 12
    assert any("run-30" in line for line in lines)
    assert "(32 more)" in lines[-1]


def test_text_of_a_models_is_neither_markup_nor_obeyed() -> None:
    lines = drawn([entry("r1", summary="[bold]x[/bold] :smile: \x1b[2J \u202e\nnext " + "long " * 60)])
    assert "[bold]x[/bold] :smile: \\x1b[2J \\u202e\\nnext" in lines[1]
    assert all(len(line) <= 120 for line in lines)
    assert drawn([])[0] == "nothing waits for approval"


def test_runs_that_cannot_be_read_are_told_of_and_take_no_room_from_the_keys() -> None:
    locked = tuple(LockedRun(f"r{number}", "boss", number or None, NOW, "old\x1b") for number in range(9))
    lines = drawn([], locked=locked)
    assert lines[:2] == [
        "run r0 may wait, and cannot be read: its key 'old\\x1b' is missing here",
        "run r1 waits for approval (1), and cannot be read: its key 'old\\x1b' is missing here",
    ]
    lines = drawn([entry(f"run-{number}") for number in range(30)], height=20, locked=locked)
    assert len(lines) == 19
    assert "j/k or arrows" in lines[-1]


class Contents(LlmDoClient):
    """A client whose inbox has this in it."""

    def __init__(self, contents: InboxContents) -> None:
        super().__init__(cast("Any", None))
        self._contents = contents

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """See LlmDoClient."""
        return self._contents


def test_runs_that_were_not_read_are_told_of() -> None:
    lines = drawn([entry(f"run-{number}") for number in range(30)], height=20, further=1234)
    assert len(lines) == 19
    assert lines[-3] == "1,234 more runs wait; the oldest come first"
    assert drawn([], further=1) == ["1 more run waits; the oldest come first", "q: leave"]


async def test_the_inbox_draws_how_many_runs_were_not_read() -> None:
    console = Console(width=120, height=20, color_system=None, highlight=False)
    inbox = Inbox(Contents(InboxContents([entry("r1")], [], 7)), None, console, Interrupt())
    await inbox.refresh()
    with console.capture() as capture:
        console.print(inbox.drawn())
    assert "7 more runs wait" in capture.get()


def test_a_short_line_keeps_the_number_the_task_and_the_call() -> None:
    entries = [entry(f"run-{number}", task="Move the handbook to release 2.4") for number in (1, 2)]
    wide, narrow = (fitted(entries, width) for width in (130, 80))
    assert wide[0].split() == ["#", "RUN", "TASK", "FROM", "ASKED", "UNTIL", "ABOUT"]
    assert narrow[0].split() == ["#", "RUN", "TASK", "UNTIL", "ABOUT"]
    assert fitted(entries, 60)[0].split() == ["#", "TASK", "ABOUT"]
    assert fitted(entries, 60)[1].startswith("1  Move the handbook t…  write_file /handbook/installation")
    # Without a task the run is all that there is to know it by.
    assert fitted([entry("run-1")], 20)[0].split() == ["#", "RUN", "ABOUT"]


def fitted(entries: list[InboxEntry], width: int) -> list[str]:
    about = "write_file /handbook/installation.md (378 bytes)"
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_inbox([replace(one, summary=about) for one in entries], 0, NOW, (width, 20)))
    return [line.rstrip() for line in capture.get().splitlines()]
