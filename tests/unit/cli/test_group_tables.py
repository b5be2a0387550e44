"""Groups on the command line: their tables, and decisions about all of a group or of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.cli import groups, session
from llm_do_temporal.cli.commands.approvals import approvals, approve, reject
from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.cli.options import Several
from llm_do_temporal.client.decisions import Fate, FrozenQuestion, QuestionOutcome
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import InboxContents, InboxEntry, grouped
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.groups import CallGroup

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = "0123456789abcdef"


def entry(number: int, **more: Any) -> InboxEntry:
    cells = {"path": f"/notes/{number}.md", "content": "x"}
    facts: dict[str, Any] = {"run": f"run-{number % 3}", "run_worker": "boss", "started_by": "ann", "id": f"a{number}"}
    facts |= {"worker": "boss", "path": "main", "tool": "write_file", "summary": f"write_file /notes/{number}.md"}
    facts |= {"asked_at": NOW + timedelta(seconds=number), "deadline": None, "votes": 0, "quorum": 1}
    facts |= {"approvers": (), "task": "keep notes", "digest": f"digest-{number}"}
    facts |= {"group": CallGroup(key=KEY, title="write_file *.md in /notes", cells=cells)}
    return InboxEntry(**facts | more)


@dataclass
class Waiting:
    """A client of these questions; decides all of them, but for those that are told otherwise."""

    entries: list[InboxEntry]
    fates: dict[str, Fate] = field(default_factory=dict[str, Fate])
    decided: list[tuple[FrozenQuestion, Decision]] = field(default_factory=list[tuple[FrozenQuestion, Decision]])

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """See LlmDoClient."""
        assert whole or run is not None
        return InboxContents(list(self.entries), [])

    async def decide_many(self, questions: Iterable[FrozenQuestion], decision: Decision) -> list[QuestionOutcome]:
        """See LlmDoClient."""
        outcomes: list[QuestionOutcome] = []
        for question in questions:
            self.decided.append((question, decision))
            fate = self.fates.get(question.id, Fate.TAKEN)
            outcomes.append(QuestionOutcome(question, fate, "approved by bob" if fate is Fate.LATE else ""))
        return outcomes

    async def approvals(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        return []


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Twelve equal questions of three runs."""
    client = Waiting([entry(number) for number in range(12)])

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=client)

    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(groups, "opened", opened)
    return client


Typist = Callable[[str], None]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Typist:
    """A person at a terminal, who types this."""

    def will_type(text: str) -> None:
        async def read_line(prompt: str) -> str:
            assert prompt.endswith("[y/N] ")
            return text

        monkeypatch.setattr(groups, "read_line", read_line)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    return will_type


def test_a_table_says_what_is_the_same_and_has_a_column_for_what_differs() -> None:
    (group,) = grouped([entry(1), entry(2, worker="helper")])
    head, differ, same, columns, first, second = group_lines(group, None)
    assert head == "01234567  2 questions of 2 runs: write_file *.md in /notes"
    assert differ == "  they differ in path (2 values)"
    assert same == "  the same in all: content x"
    assert columns.split() == ["RUN", "ID", "TASK", "WORKER", "ASKED", "path:"]
    assert first.split()[:5] == ["run-1", "a1", "keep", "notes", "boss"]
    assert second.split()[:5] == ["run-2", "a2", "keep", "notes", "helper"]
    assert second.endswith("/notes/2.md")


def test_what_the_table_has_no_room_for_is_counted() -> None:
    (group,) = grouped([entry(number) for number in range(30)])
    lines = group_lines(group, 60, 10)
    assert len(lines) == 3 + 1 + 10 + 1
    assert lines[-1] == "  and 20 more"
    assert all(len(line) <= 60 for line in lines)
    cut = CallGroup(key=KEY, title="t", cells={"content": "xx… (900 characters, 12345678)"}, is_whole=False)
    (group,) = grouped([entry(1), entry(2, group=cut)])
    assert group_lines(group, None)[-1] == "  1 of them: not all arguments are shown whole here"


def test_kinds_of_contents_are_counted_and_an_argument_that_is_not_listed_is_none_of_them() -> None:
    """Nobody takes five questions for one because a list is short."""
    texts = ["buy bread", "buy bread", "buy bread", "sell the house", "sell the car"]
    cells = [{"path": f"/{number}.md", "content": text} for number, text in enumerate(texts)]
    groups = [CallGroup(key=KEY, title="t", cells=each) for each in cells]
    (group,) = grouped(entry(number, group=one) for number, one in enumerate(groups))
    assert group.differences == "path (5 values) and content (3 values)"
    assert group.values == {"path": 5, "content": 3}
    same = CallGroup(key=KEY, title="t", cells=cells[0])
    (group,) = grouped([entry(1, group=same), entry(2, group=same)])
    assert group.differences == ""
    crowded = same.model_copy(update={"is_whole": False, "left_out": 1})
    (group,) = grouped([entry(1, group=crowded), entry(2, group=crowded)])
    assert group.differences == "perhaps 1 argument that is not listed"
    fewer = CallGroup(key=KEY, title="t", cells={"path": "/9.md"}, is_whole=False, left_out=2)
    (group,) = grouped([entry(1, group=same), entry(2, group=fewer)])
    words = "path (2 values), content (1 or more values) and perhaps 2 arguments that are not listed"
    assert group.differences == words
    assert grouped([entry(1, group=fewer)])[0].differences == ""


@pytest.mark.parametrize("width", [30, 60, 80, 200, None])
def test_nothing_of_what_is_to_be_decided_is_cut(width: int | None) -> None:
    """However long the arguments before it are, the one that matters is on the screen."""
    cells = [{"first": f"harmless {number} " * 5, "TASK": "x", "path": f"/{'y' * 40}/{number}.md"} for number in (1, 2)]
    (group,) = grouped([entry(number, group=CallGroup(key=KEY, title="t", cells=cells[number])) for number in (0, 1)])
    lines = group_lines(group, width)
    told = "".join(line.lstrip() if line.startswith(" " * 8) else f"\n{line}" for line in lines)
    assert all(len(line) <= (width or 1000) for line in lines)
    assert [one["path"] in told for one in cells] == [True, True]
    assert "…" not in told
    is_stacked = width is not None and width < 200
    assert ('  a1 of run-1 (keep notes)  first: "harmless' in told) is is_stacked
    assert any(len(line) == 60 and line.endswith("…") for line in group_lines(group, 60, 10))


def test_an_argument_that_there_was_no_room_for_does_not_look_empty() -> None:
    full = CallGroup(key=KEY, title="t", cells={"to": "a", "text": ""})
    crowded = CallGroup(key=KEY, title="t", cells={"to": "b"}, is_whole=False)
    (group,) = grouped([entry(1, group=full), entry(2, group=crowded)])
    assert group.columns == ("to", "text")
    assert [group.cells(one) for one in group.entries] == [["a", ""], ["b", "…"]]


def test_a_group_of_one_run_names_its_task_once() -> None:
    cells = [{"path": f"/notes/{number}.md", "old": "a b " * 20, "new": f"word {number} " * 10} for number in (1, 4)]
    groups = [CallGroup(key=KEY, title="edit_file *.md in /notes", cells=each) for each in cells]
    (group,) = grouped([entry(1, group=groups[0]), entry(4, group=groups[1], worker="helper")])
    lines = group_lines(group, 80)
    assert lines[2].startswith('  the same in all: old "a b a b')
    assert "  task: keep notes" in lines
    assert [line for line in lines if "path: " in line] == [
        "  a1 by boss  path: /notes/1.md",
        "  a4 by helper  path: /notes/4.md",
    ]


def test_text_of_models_is_not_obeyed() -> None:
    hostile = CallGroup(key=KEY, title="a\x1b[2J\nb", cells={"pa\x1bth": "\u202ex"})
    other = CallGroup(key=KEY, title="t", cells={"pa\x1bth": "y\n\nz"})
    (group,) = grouped([entry(1, group=hostile, task="\x1b]0;x"), entry(2, group=other)])
    text = "\n".join(group_lines(group, None))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u202ex" in text
    assert len(text.splitlines()) == 5


async def test_groups_are_listed_with_the_command_that_decides_one(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await approvals(group=True) == 0
    told = capsys.readouterr()
    assert "12 questions of 3 runs: write_file *.md in /notes" in told.out
    assert "and 2 more" in told.out
    assert "approve --group 01234567" in told.err
    assert await approvals(group=True, as_json=True) == 0
    (group,) = json.loads(capsys.readouterr().out)
    assert (group["group"], len(group["questions"])) == (KEY, 12)
    assert group["questions"][0]["args"] == {"path": "/notes/0.md"}


async def test_all_of_a_group_are_shown_before_they_are_decided(
    waiting: Waiting, types: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    types("n")
    assert await approve(several=Several(group=KEY[:8])) == 1
    told = capsys.readouterr().err
    assert all(f"/notes/{number}.md" in told for number in range(12))
    assert "nothing was decided" in told
    assert waiting.decided == []
    types("y")
    assert await approve(several=Several(group=KEY[:8]), note="as agreed") == 0
    assert [one.digest for one, _ in waiting.decided] == [f"digest-{number}" for number in range(12)]
    assert {(one.decision, one.note) for _, one in waiting.decided} == {(DecisionKind.APPROVE, "as agreed")}
    assert "12 decided: 12 taken" in capsys.readouterr().err


async def test_the_exit_code_and_a_line_say_what_was_not_taken(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.fates = {"a3": Fate.LATE, "a4": Fate.SENT}
    assert await reject(reason="not now", several=Several(group=KEY, yes=True, as_json=True)) == 2
    told = capsys.readouterr()
    assert "10 taken, 1 sent, no worker service has answered yet, 1 late, somebody was faster" in told.err
    assert "run-0  a3  late     approved by bob" in told.err
    outcomes = {one["id"]: one["outcome"] for one in json.loads(told.out)}
    assert (len(outcomes), outcomes["a3"], outcomes["a4"]) == (12, "late", "sent")


async def test_without_a_terminal_somebody_has_to_say_yes(waiting: Waiting) -> None:
    with pytest.raises(UsageError, match="approve these 12") as error:
        await approve(several=Several(group=KEY))
    assert error.value.next_step == "Add --yes."
    assert waiting.decided == []


@pytest.mark.parametrize(
    ("named", "several", "message"),
    [
        ((), Several(), "name the run"),
        ((), Several(all=True), "name it: RUN --all"),
        (("run-1", "a1"), Several(all=True), "leave the ID"),
        (("run-1",), Several(group=KEY), "leave 'run-1' out"),
        (("run-1",), Several(group=KEY, all=True), "give one of them"),
        (("run-1", "a1"), Several(yes=True), "name the run"),
        ((), Several(group="01"), "too short"),
    ],
)
async def test_what_is_not_clear_is_refused(
    waiting: Waiting, named: tuple[str, ...], several: Several, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await approve(*named, several=several)
    assert waiting.decided == []


async def test_a_run_that_asks_nothing_is_no_mistake(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    assert await approve("run-1", several=Several(all=True, yes=True)) == 0
    assert "nothing of it waits" in capsys.readouterr().err
