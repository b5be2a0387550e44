"""Kinds of calls on the command line and at the prompt: what is offered, what is sent, what is said of mistakes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from llm_do_temporal.cli import session
from llm_do_temporal.cli.commands.approvals import approvals, approve
from llm_do_temporal.cli.commands.grants import grants
from llm_do_temporal.cli.terminal.ask import ask_for_grant
from llm_do_temporal.cli.terminal.prompts import Interrupt, Prompter
from llm_do_temporal.client import OfferedKind, Question, offered_kinds
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind, Grant, Verdict
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile
from llm_do_temporal.policy.kinds.kind import KindGrant
from tests.support.workflow.desk_questions import NOON, write


def note(approval: str, name: str, decision: DecisionKind | None = None) -> Question:
    """Return the question about a note, decided or not."""
    path = f"/notes/{name}"
    seen = SeenFile(path=path, place=f"notes/{name}")
    asked = write(path, files=(seen,), identity_version=IDENTITY_VERSION, summary=f"write_file {path}")
    verdict = None
    if decision is not None:
        verdict = Verdict(decision=decision, args=asked.args, at=NOON, by="ada", door="update")
    return Question(id=approval, run="r1", request=asked, asked_at=NOON, verdict=verdict)


QUESTIONS = [
    note("a1", "a.md", DecisionKind.APPROVE),
    note("a2", "b.md", DecisionKind.REJECT),
    note("a3", "c.md"),
    note("a4", "d.txt"),
]


@dataclass
class Desk:
    """A client whose run has asked these questions."""

    asked: list[Question] = field(default_factory=lambda: list(QUESTIONS))
    remembered: list[Grant] = field(default_factory=list[Grant])
    taken: list[Decision] = field(default_factory=list[Decision])

    async def questions(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        return self.asked

    async def approvals(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        return [one for one in self.asked if one.is_open]

    async def grants(self, run: str) -> list[Grant]:
        """See LlmDoClient."""
        return self.remembered

    def follow(self, run: str) -> Any:
        """See LlmDoClient: a run of which nothing more is known."""

        async def events() -> AsyncGenerator[Any]:
            for event in ():
                yield event

        return SimpleNamespace(events=events)

    async def decide(self, run: str, decision: Decision) -> Approval:
        """See LlmDoClient."""
        self.taken.append(decision)
        assert decision.decision is not None
        verdict = Verdict(decision=decision.decision, args={}, at=NOON, door="update")
        return Approval(id="a3", asked_at=NOON, request=self.asked[2].request, verdict=verdict)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    client = Desk()

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=client)

    monkeypatch.setattr(session, "opened", opened)
    return client


def test_each_kind_is_offered_with_what_it_would_have_covered() -> None:
    offers = offered_kinds(QUESTIONS[2], QUESTIONS)

    assert [(one.kind.sentence, [each.id for each in one.covered], one.so_far) for one in offers] == [
        ("write_file of /notes/c.md", [], "no other call so far"),
        ("write_file of .md files below /notes", ["a1", "a2"], "2 calls so far, 1 of them rejected or changed"),
        ("write_file of files below /notes", ["a1", "a2", "a4"], "3 calls so far, 1 of them rejected or changed"),
    ]
    assert offered_kinds(QUESTIONS[2], [QUESTIONS[0]])[1].so_far == "1 call so far"


def test_a_call_that_was_asked_about_again_counts_once_for_a_kind() -> None:
    asked = [replace(QUESTIONS[0], again="a2"), note("a2", "a.md", DecisionKind.APPROVE), QUESTIONS[2]]
    offers = offered_kinds(asked[2], asked)
    assert [(one.so_far, [each.id for each in one.covered]) for one in offers[1:]] == [("1 call so far", ["a2"])] * 2


async def test_kinds_are_listed_with_numbers_and_calls(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    await approvals("r1", "a3", kinds=True)
    told = capsys.readouterr()

    assert told.out.splitlines() == [
        "1  write_file of /notes/c.md: no other call so far",
        "2  write_file of .md files below /notes: 2 calls so far, 1 of them rejected or changed",
        "     a1  approved  write_file /notes/a.md",
        "     a2  rejected  write_file /notes/b.md",
        "3  write_file of files below /notes: 3 calls so far, 1 of them rejected or changed",
        "     a1  approved  write_file /notes/a.md",
        "     a2  rejected  write_file /notes/b.md",
        "     a4  waits  write_file /notes/d.txt",
    ]
    assert "approve with one of them: llm-do-temporal approve r1 a3 --kind 1 --times 20 --for 1h" in told.err
    await approvals("r1", "a3", kinds=True, as_json=True)
    assert json.loads(capsys.readouterr().out)[1] == {
        "kind": {"tool": "write_file", "below": "/notes", "suffix": ".md"},
        "sentence": "write_file of .md files below /notes",
        "covered": ["a1", "a2"],
        "rejected_or_changed": ["a2"],
    }


async def test_a_call_of_no_kind_says_so(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.asked = [replace(QUESTIONS[2], request=write("/notes/c.md"))]
    await approvals("r1", "a3", kinds=True)

    assert "no kind of calls fits the call of a3" in capsys.readouterr().err
    with pytest.raises(UsageError, match="it has none"):
        await approve("r1", "a3", kind=1)


async def test_a_chosen_kind_is_sent_with_its_bounds(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    await approve("r1", "a3", kind=2, times=5, time="2h")
    await approve("r1", "a3", kind=1)
    first, second = (decision.grant for decision in desk.taken)

    assert first is not None
    assert second is not None
    assert (first.kind.sentence, first.times, first.seconds) == ("write_file of .md files below /notes", 5, 7200)
    assert (second.times, second.seconds) == (20, 3600)
    assert "granted: write_file of .md files below /notes, 5 times more, for 2 hours" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"times": 3}, "name it with --kind"),
        ({"time": "1h"}, "name it with --kind"),
        ({"kind": 1, "remember": True}, "take one of them"),
        ({"kind": 4}, "--kind 4 is no kind of the call of a3: it has 3"),
        ({"kind": 0}, "--kind 0 is no kind"),
        ({"kind": 1, "times": 0}, "--times: Input should be greater"),
        ({"kind": 1, "time": "soon"}, "--for: 'soon' is not a time"),
    ],
)
async def test_a_mistake_is_said_and_nothing_is_sent(desk: Desk, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await approve("r1", "a3", **options)

    assert desk.taken == []


async def test_kinds_are_about_one_approval(desk: Desk) -> None:
    for run, approval in (("r1", None), (None, None)):
        with pytest.raises(UsageError, match="--kinds is about one approval"):
            await approvals(run, approval, kinds=True)
    with pytest.raises(UsageError, match="has asked nothing that is called 'a9'"):
        await approvals("r1", "a9", kinds=True)


def granted(approval: str, *, used: int = 0, at: datetime | None = None) -> Grant:
    """Return the grant of a kind that somebody gave at that time; None: now."""
    kind = offered_kinds(QUESTIONS[2], [])[1].kind
    verdict = Verdict(
        decision=DecisionKind.APPROVE,
        args={},
        at=at or datetime.now(UTC),
        by="ada",
        door="update",
        grant=KindGrant(kind=kind, times=2, seconds=3600),
    )
    return Grant.of(approval, QUESTIONS[2].request, verdict).model_copy(update={"used": used})


async def test_grants_are_listed_with_what_is_left(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    desk.remembered = [granted("a1", used=1), granted("a2", used=2), granted("a3", at=past)]
    await grants("r1")
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].split() == ["ID", "TOOL", "DECISION", "BY", "WHEN", "USED", "UNTIL", "SUMMARY"]
    assert "1 of 2  in 59m   write_file of .md files below /notes" in lines[1]
    assert "2 of 2  used up  " in lines[2]
    assert "0 of 2  over     " in lines[3]
    await grants("r1", as_json=True)
    shown = json.loads(capsys.readouterr().out)[0]["granted"]
    assert (shown["sentence"], shown["times"], shown["used"]) == ("write_file of .md files below /notes", 2, 1)


async def ask_at_prompt(offers: list[OfferedKind]) -> tuple[Any, str]:
    """Return the grant that a person typed at the prompt, and all that was shown."""
    shown = StringIO()
    prompter = Prompter(Console(file=shown, width=120), Interrupt(), lambda: None)
    return await ask_for_grant(offers, prompter), shown.getvalue()


async def test_the_prompt_offers_the_same(typed: Callable[..., None]) -> None:
    offers = offered_kinds(QUESTIONS[2], QUESTIONS)
    typed("2", "3", "30m")
    grant, shown = await ask_at_prompt(offers)

    assert (grant.kind, grant.times, grant.seconds) == (offers[1].kind, 3, 1800)
    assert "2  write_file of .md files below /notes: 2 calls so far, 1 of them rejected or changed" in shown
    assert "     a2  rejected  write_file /notes/b.md" in shown
    typed("1", "", "")
    grant, _ = await ask_at_prompt(offers)
    assert (grant.times, grant.seconds) == (20, 3600)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([""], ""),
        ([None], ""),
        (["9"], "'9' is none of the numbers above"),
        (["²"], "'²' is none of the numbers above"),
        (["1", None, ""], ""),
        (["1", "many", ""], "valid integer"),
        (["1", "1", "soon"], "'soon' is not a time"),
    ],
)
async def test_the_prompt_takes_nothing_else(typed: Callable[..., None], lines: list[str | None], says: str) -> None:
    typed(*lines)
    grant, shown = await ask_at_prompt(offered_kinds(QUESTIONS[2], QUESTIONS))

    assert grant is None
    assert says in shown


async def test_the_prompt_says_that_a_call_is_of_no_kind() -> None:
    assert "no kind of calls fits" in (await ask_at_prompt([]))[1]


HOSTILE = note("a5", "x.md\n2  the command `git status`: no other call so far\n\x1b7.md")


async def test_a_path_of_several_lines_cannot_pass_for_another_kind(
    desk: Desk, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    desk.asked.append(HOSTILE)
    offers = offered_kinds(HOSTILE, desk.asked)
    typed("1", "2", "1h")
    grant, prompted = await ask_at_prompt(offers)
    await approvals("r1", "a5", kinds=True)
    listed = capsys.readouterr().out
    await approve("r1", "a5", kind=1)

    assert grant.kind.path == HOSTILE.request.args["path"]
    for told in (prompted, listed):
        assert [line[:1] for line in told.splitlines() if line[:1].isdigit()] == ["1", "2", "3"]
        assert "\x1b" not in told
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "git status" in line]
    assert line.startswith('granted: "write_file of /notes/x.md\\n2\\x20\\x20the command')


ALIKE = [
    ("a\u200b.md", "a\\u200b.md"),
    ("c\x1b.md", "c\\x1b.md"),
    ("c ", "c\u00a0"),
    ("c", "c "),
    ("a b.md", "a\u00a0b.md"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
async def test_kinds_of_names_that_look_alike_are_told_apart(
    desk: Desk, typed: Callable[..., None], capsys: pytest.CaptureFixture[str], one: str, other: str
) -> None:
    def seen(shown: str) -> str:
        return " ".join(shown.split())

    async def told(name: str) -> list[str]:
        desk.asked = [*QUESTIONS[:2], note("a3", name)]
        kind = offered_kinds(desk.asked[2], [])[0].kind
        typed("")
        _, prompted = await ask_at_prompt(offered_kinds(desk.asked[2], desk.asked))
        await approvals("r1", "a3", kinds=True)
        listed = capsys.readouterr().out
        await approve("r1", "a3", kind=1)
        said = capsys.readouterr().err
        verdict = Verdict(decision=DecisionKind.APPROVE, args={}, at=NOON, door="update", grant=KindGrant(kind=kind))
        desk.remembered = [Grant.of("a3", desk.asked[2].request, verdict)]
        await grants("r1")
        remembered = capsys.readouterr().out
        return [seen(text) for text in (prompted, listed, said, remembered)]

    for first, second in zip(await told(one), await told(other), strict=True):
        assert first != second
        assert first.isprintable()
