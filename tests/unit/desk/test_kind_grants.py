"""Grants of a kind of calls: what they answer, how often, how long, and under whose name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import with_revocation
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Approval, DeskState, RequestApprovalInput, RevokeGrantInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.workflow.desk_questions import LATER, asked, decided, request, withdrawn, write

KIND = {"tool": "write_file", "below": "/notes", "suffix": ".md"}
ELSEWHERE = Tree(mounts=(Mount(at="/", root="other"),))


def note(name: str = "a.md", **more: Any) -> RequestApprovalInput:
    """The question about a note that was looked at."""
    path = f"/notes/{name}"
    seen = SeenFile(path=path, place=f"notes/{name}")
    asked = write(path, files=(seen,), identity_version=IDENTITY_VERSION, key=name)
    return asked.model_copy(update=more)


def command(line: str, *files: SeenFile, **more: Any) -> RequestApprovalInput:
    """The question about a command."""
    use = CapabilityUse(name="proc.exec", payload={"argv": line.split(), "cwd": "/"})
    given = {"tool": "shell", "args": {"command": line}, "capabilities": (use,), "files": files, "key": line}
    return request(**(given | {"identity_version": IDENTITY_VERSION, "surroundings": "folders"} | more))


def granted(state: DeskState, times: int = 3, kind: Any = None, **more: Any) -> tuple[DeskState, list[Approval]]:
    """The desk after the first question was approved, with a grant."""
    grant = {"kind": kind or KIND, "times": times, "seconds": 600}
    return decided(state, **({"id": "a1", "by": "ada", "grant": grant} | more))


def verdict_on(state: DeskState, question: RequestApprovalInput, *, minutes: float = 0) -> tuple[DeskState, str]:
    """The desk after one more question, and the door through which it was answered; empty: it waits."""
    state, approval = desk.with_request(state, question, now=LATER + timedelta(minutes=minutes))
    return state, "" if approval.verdict is None else approval.verdict.door


def test_a_grant_answers_calls_of_its_kind_in_the_name_of_who_gave_it() -> None:
    state, answered = granted(asked(note()))
    assert [one.id for one in answered] == ["a1"]

    state, approval = desk.with_request(state, note("b.md"), now=LATER)
    verdict = approval.verdict
    assert verdict is not None
    assert (verdict.decision, verdict.by, verdict.door, verdict.granted_by) == ("approve", "ada", "grant", "a1")
    assert verdict.args == approval.request.args
    assert verdict.note == "write_file of .md files below /notes"
    assert verdict_on(state, note("b.txt"))[1] == ""


def test_a_grant_is_used_up() -> None:
    state, _ = granted(asked(note()), times=2)
    doors: list[str] = []
    for number in range(8):
        state, door = verdict_on(state, note(f"{number}.md"))
        doors.append(door)

    assert doors == ["grant", "grant", "", "", "", "", "", ""]
    assert state.grants[0].used == 2


def test_a_grant_answers_what_waits_the_oldest_first_and_no_more_than_its_number() -> None:
    waiting = asked(*(note(f"{number}.md") for number in range(8)), write("/else.md", key="else"))
    state, answered = granted(waiting, times=2)

    assert [one.id for one in answered] == ["a1", "a2", "a3"]
    assert [one.id for one in desk.pending(state)] == ["a4", "a5", "a6", "a7", "a8", "a9"]
    assert state.grants[0].used == 2


def test_a_grant_ends_with_its_time() -> None:
    state, _ = granted(asked(note()))

    assert state.grants[0].until == LATER + timedelta(seconds=600)
    assert verdict_on(state, note("b.md"), minutes=9.9)[1] == "grant"
    assert verdict_on(state, note("b.md"), minutes=10)[1] == ""


def test_a_grant_can_be_taken_back() -> None:
    state, _ = granted(asked(note()))
    state = with_revocation(state, RevokeGrantInput(id="a1"))

    assert verdict_on(state, note("b.md"))[1] == ""


def test_a_grant_goes_along_where_the_run_is_continued() -> None:
    state, _ = granted(asked(note()), times=2)
    state, _ = verdict_on(state, note("b.md"))
    again = DeskState.model_validate_json(desk.archived(state).model_dump_json())
    again, first = verdict_on(again, note("c.md"))
    again, second = verdict_on(again, note("d.md"))

    assert (first, second) == ("grant", "")


@pytest.mark.parametrize(
    "question",
    [
        note("b.md", files=(SeenFile(path="/notes/b.md", place="secret/b.md"),)),  # a link that was made since
        note("b.md", files=()),
        note("b.md", tree=ELSEWHERE, files=(SeenFile(path="/notes/b.md", place="other/notes/b.md"),)),
        note("b.md", approvers=("ann",)),
        note("b.md", quorum=2),
        note("b.md", forbid_own=True),
        note("b.md", surroundings="other"),
        note("b.md", capabilities=(*note().capabilities, CapabilityUse(name="sandbox.read", payload={}))),
        note("b.md", capabilities=(CapabilityUse(name="limit.exceed", payload={}),)),
    ],
)
def test_a_grant_covers_nothing_in_other_circumstances(question: RequestApprovalInput) -> None:
    state, _ = granted(asked(note()))

    assert verdict_on(state, question)[1] == ""


def test_a_grant_for_a_command_holds_while_the_files_of_its_own_words_are_as_they_were() -> None:
    script = SeenFile(path="/tools/count.py", place="tools/count.py", sha256="1" * 64, mode=0o644)
    deck = SeenFile(path="/a.md", place="a.md", sha256="2" * 64, mode=0o644)
    line = "python tools/count.py {path}"
    state, _ = granted(asked(command("python tools/count.py a.md", script, deck)), kind={"command": line})
    other = SeenFile(path="/b.md", place="b.md", sha256="3" * 64, mode=0o644)
    changed = script.model_copy(update={"sha256": "4" * 64})
    question = command("python tools/count.py b.md", script, other)

    assert verdict_on(state, question)[1] == "grant"
    assert verdict_on(state, command("python tools/count.py new", script))[1] == "grant"
    assert verdict_on(state, command("python tools/count.py b.md", changed, other))[1] == ""
    assert verdict_on(state, command("python tools/count.py b.md", script, other, deck))[1] == ""
    assert verdict_on(state, command("python tools/count.py -c", script))[1] == ""
    assert verdict_on(state, question.model_copy(update={"surroundings": "with network"}))[1] == ""


def test_a_grant_above_several_folders_is_bound_to_all_of_them() -> None:
    def tree(second: str) -> Tree:
        return Tree(mounts=(Mount(at="/notes", root="notes"), Mount(at="/out", root=second)))

    state, _ = granted(asked(note(tree=tree("out"))), kind={"tool": "write_file", "below": "/"})

    assert verdict_on(state, note("b.md", tree=tree("out")))[1] == "grant"
    assert verdict_on(state, note("b.md", tree=tree("secret")))[1] == ""


def test_a_grant_for_a_callee_goes_where_its_files_are_the_same() -> None:
    kind = {"worker": "evaluator", "attachments": "/in"}
    nowhere, somewhere = Tree(), Tree(mounts=(Mount(at="/", root="files"),))
    state, _ = granted(asked(request(tree=nowhere, identity_version=IDENTITY_VERSION)), kind=kind)

    assert verdict_on(state, request(tree=nowhere, key="2", args={"input": "more"}))[1] == "grant"
    assert verdict_on(state, request(tree=somewhere, key="3"))[1] == ""
    assert verdict_on(state, request(tree=nowhere, key="4", surroundings="another definition"))[1] == ""


def test_a_word_that_is_no_file_holds_nothing() -> None:
    two = Tree(mounts=(Mount(at="/in", root="in"), Mount(at="/out", root="out")))
    kind = {"command": "make {name}"}
    state, _ = granted(asked(command("make test", tree=two)), kind=kind)

    assert verdict_on(state, command("make build", tree=two))[1] == "grant"


@pytest.mark.parametrize(
    ("question", "decision", "says"),
    [
        (note(), {"decision": "reject", "note": "no"}, "goes with decision 'approve' alone"),
        (note(), {"decision": "modify", "args": {"path": "/b.md", "content": ""}}, "goes with decision 'approve'"),
        (note(), {"remember": "session"}, "not both"),
        (write("/else.md"), {}, "does not cover the call of approval 'a1' itself"),
        (note(files=()), {}, "does not cover the call"),
        (note(capabilities=(CapabilityUse(name="effect.repeat", payload={}),)), {}, "asked about one by one"),
        (note(capabilities=(CapabilityUse(name="changes.commit", payload={}),)), {}, "asked about one by one"),
    ],
)
def test_a_decision_that_grants_what_it_may_not_is_refused(
    question: RequestApprovalInput, decision: dict[str, Any], says: str
) -> None:
    with pytest.raises(DecisionRefused, match=says):
        granted(asked(question), **decision)


def test_several_people_grant_what_all_of_them_grant() -> None:
    two = asked(note(quorum=2))
    state, _ = granted(two, by="ann")
    assert state.grants == ()
    state, _ = granted(state, by="bob")
    assert verdict_on(state, note("b.md", quorum=2))[1] == "grant"


@pytest.mark.parametrize("second", [{"times": 4}, {"grant": None}, {"kind": {**KIND, "below": "/"}}])
def test_several_people_who_grant_different_things_agree_to_the_call_alone(second: dict[str, Any]) -> None:
    state, _ = granted(asked(note(quorum=2)), by="ann")
    state, answered = granted(state, by="bob", **second)

    assert answered[0].verdict is not None
    assert (answered[0].verdict.grant, state.grants) == (None, ())


def test_who_may_not_agree_may_not_grant() -> None:
    state = asked(note(forbid_own=True)).model_copy(update={"started_by": "ada"})

    with pytest.raises(DecisionRefused, match="somebody other than who started the run"):
        granted(state, by="ada")


def test_a_remembered_rejection_of_an_identical_call_comes_first() -> None:
    state, _ = decided(asked(note("no.md"), note()), id="a1", decision="reject", note="no", remember="session")
    state, _ = granted(state, id="a2")
    _, approval = desk.with_request(state, note("no.md"), now=LATER)

    assert approval.verdict is not None
    assert (approval.verdict.decision, approval.verdict.granted_by) == ("reject", "a1")


def test_an_entry_of_the_workshop_answers_and_uses_nothing_up() -> None:
    state, _ = granted(asked(note()), times=1)
    state, approval = desk.with_request(state, note("b.md", allowed="entry 1"), now=LATER)

    assert approval.verdict is not None
    assert (approval.verdict.door, approval.verdict.by, approval.verdict.note) == ("rule", "workshop.yaml", "entry 1")
    assert state.grants[0].used == 0
    assert verdict_on(state, note("c.md"))[1] == "grant"


def test_a_question_that_was_taken_back_is_not_answered() -> None:
    state, answered = granted(withdrawn(asked(note(), note("b.md"), note("c.md")), "b.md"))

    assert [one.id for one in answered] == ["a1", "a3"]
    assert state.grants[0].used == 1
