"""The difference of two runs on the terminal."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from rich.cells import cell_len

from llm_do_temporal.extensions.forks.client_differences import (
    FileAccount,
    InvocationAccount,
    RunAccount,
    RunDifference,
    ToldTurn,
    compare,
)
from llm_do_temporal.extensions.forks.terminal_differences import difference_json, difference_lines, side_by_side
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.policy.layers.layer import file_node
from llm_do_temporal.policy.layers.patch import file_hunks

ENTRY = InvocationAccount("main", "boss", given={"prompt": "go"}, turns=(ToldTurn(1, "Blue."),), output="Blue.")
RUN = RunAccount("run-1", "boss", output="Blue.", roots=(ENTRY,), usage=Usage(requests=3))
FORK = RunAccount(
    "run-1-fork",
    "boss",
    output="Red \x1b[31m.",
    roots=(replace(ENTRY, turns=(ToldTurn(1, "Red \x1b[31m."),), output="Red \x1b[31m."),),
    usage=Usage(requests=1, cost_usd=Decimal("0.5"), saved=Saved(requests=2, cost_usd=Decimal("1.25"))),
    files=(FileAccount("a.md", "main", file_node("1" * 64, 4, blob=None), text="new\n"),),
)


def difference_of(one: RunAccount, other: RunAccount) -> RunDifference:
    """The difference, with the lines of its files as if each was `old` before."""
    hunks = file_hunks(b"old\n", b"new\n")
    assert hunks is not None
    found = compare(one, other)
    return replace(found, files=tuple(replace(pair, lines=hunks.hunks) for pair in found.files))


def lines_of(one: RunAccount, other: RunAccount, width: int = 100) -> list[str]:
    """The report as plain text."""
    lines = difference_lines(difference_of(one, other), width)
    assert all(cell_len(line.plain) <= width for line in lines)
    return [line.plain for line in lines]


def test_the_report_has_amounts_first_difference_answer_and_files() -> None:
    lines = lines_of(RUN, FORK)
    assert lines[0].split() == ["run", "run-1", "run-1-fork"]
    assert "1, and 2 reused" in next(line for line in lines if line.startswith("turns"))
    assert "$0.5000, saved $1.2500" in next(line for line in lines if line.startswith("cost"))
    place = lines.index("first difference: main turn 1, the answer")
    assert [part.strip() for part in lines[place + 1].split("│")] == ["Blue.", "Red \\x1b[31m."]
    assert lines[-4:] == [
        "  a.md, on the right alone",
        "    @ line 1",
        "    -old",
        "    +new",
    ]


def test_nothing_obeys_control_characters_and_every_width_is_kept() -> None:
    for width in (20, 40, 71, 72, 133):
        assert "\x1b" not in "".join(lines_of(RUN, FORK, width))


def test_equal_runs_are_said_to_be_the_same() -> None:
    assert lines_of(RUN, replace(RUN, run="run-2"))[-1] == (
        "the same: every turn, call and decision, the answer and the files"
    )
    assert difference_json(difference_of(RUN, RUN))["same"] is True


def test_the_object_has_both_runs_divergences_and_files_in_full() -> None:
    found = difference_json(difference_of(RUN, FORK))
    assert (found["type"], found["same"], found["same_output"]) == ("run.difference", False, False)
    (one,) = found["divergences"]
    assert (one["kind"], one["path"], one["turn"], one["second"]) == ("answer", "main", 1, "Red \x1b[31m.")
    (file,) = found["files"]
    assert (file["first"], file["second"]["now"]["bytes"], file["lines"]) == (None, 4, ["-old\n+new\n"])
    assert found["second"]["saved"]["requests"] == 2


def test_lines_that_both_have_are_left_out_far_from_those_that_differ() -> None:
    text = "".join(f"line {number}\n" for number in range(40))
    lines = [line.plain.rstrip() for line in side_by_side(text, text.replace("line 20\n", "LINE\n"), 90)]
    assert lines[0].strip() == lines[-1].strip() == "…"
    assert [line.split("│")[0].strip() for line in lines[1:-1]] == [f"line {number}" for number in range(18, 23)]
    assert "LINE" in lines[3]


@pytest.mark.parametrize("width", [60, 120])
def test_long_values_are_cut_and_say_so(width: int) -> None:
    lines = side_by_side("", "\n".join(f"{number}" for number in range(500)), width, 5)
    assert "more lines; --json has all of it" in lines[-1].plain
    assert len(lines) <= 7


def test_a_pair_of_many_invocations_is_a_table() -> None:
    child = InvocationAccount("main/reader-1", "reader", begun_in=1)
    other = replace(RUN, roots=(replace(ENTRY, children=(child,)),))
    lines = lines_of(RUN, other)
    assert "  main  1 turn | 1 turn  the same" in lines
    assert "  main/reader-1  - | 0 turns  on the right alone" in lines
