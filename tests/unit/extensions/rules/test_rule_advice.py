"""Advice on rules: which past calls it learns from, what its entries say, and how it counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.extensions.rules.trial import PastCall, RuleAdvice, advice_on, entry_mapping
from llm_do_temporal.messages.approvals import RequestApprovalInput, Verdict
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.kinds.kind import AskedCall
from llm_do_temporal.redaction.configured_keys import know_value
from tests.support.people.asked_calls import command, delegation, write

BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)
TODAY = ApprovalRules()
NOTES = [write(f"/notes/{name}.md") for name in "abcde"]


def past(call: AskedCall, number: int, decision: str | None = "approve", **more: Any) -> PastCall:
    """A call that was asked about in a run and on a day of its own; `decision` None: nobody decided."""
    at = BEGIN + timedelta(days=number)
    given = {"door": "update", "by": "ann", **more.pop("verdict", {})}
    asker = more.pop("by_template", call.worker)
    verdict = Verdict.model_validate({"decision": decision, "args": call.args, "at": at, **given}) if decision else None
    fields: dict[str, Any] = {"invocation": "i", "key": "1", "path": "main", "summary": "s", "identity_version": 2}
    request = RequestApprovalInput(
        **fields,
        worker=asker,
        tool=call.tool,
        args=call.args,
        tree=call.tree,
        capabilities=call.uses,
        files=call.files,
        attachments=call.attachments,
        **more,
    )
    return PastCall(Question(f"a{number}", f"run-{number}", request, at, verdict=verdict), None)


def several(
    calls: Sequence[AskedCall], decision: str | None = "approve", first: int = 0, **more: Any
) -> list[PastCall]:
    """Each call, in a run and on a day of its own."""
    return [past(call, number, decision, **dict(more)) for number, call in enumerate(calls, first)]


def figures(advice: RuleAdvice) -> tuple[int, int, int, int]:
    return len(advice.entries), advice.asked, advice.left, advice.wrong


def test_an_entry_says_where_it_comes_from_and_has_examples_that_it_keeps() -> None:
    calls = [*several(NOTES), *several([write("/x/y.md"), write("/notes/sub/z.txt")], "reject", first=20)]
    (learned,) = advice_on(calls, TODAY).entries
    assert entry_mapping(learned.entry) == {
        "tool": "write_file",
        "folder": "/notes",
        "suffix": ".md",
        "callers": ["main"],
        "why": "approved 5 times in 5 runs on 5 days by ann; never refused",
        "match": ["/notes/a.md", "/notes/c.md", "/notes/e.md"],
        "not_match": ["/x/y.md", "/notes/sub/z.txt"],
    }
    assert list(learned.entry.failed_examples()) == []


def test_it_counts_what_was_asked_what_is_left_and_that_nothing_is_wrong() -> None:
    calls = [*several(NOTES), *several([command("make deploy")] * 2, "reject", first=20), *several(NOTES[:1], None, 30)]
    assert figures(advice_on(calls, TODAY)) == (1, 8, 2, 0)
    assert advice_on(calls, TODAY).saved == 6


def test_nothing_asked_is_no_advice() -> None:
    assert figures(advice_on([], TODAY)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "more",
    [
        {"verdict": {"door": "grant"}},
        {"verdict": {"door": "rule"}},
        {"verdict": {"door": "timer", "decision": "reject"}},
        {"decision": None},
        {"decision": "modify"},
        {"decision": "reject"},
        {"generated": True},
        {"by_template": "templates/main.yaml"},
        {"by_template": "pkg:main"},
    ],
)
def test_what_no_person_approved_as_it_was_is_not_learned(more: dict[str, Any]) -> None:
    assert advice_on(several(NOTES, **more), TODAY).entries == ()


@pytest.mark.parametrize(
    ("more", "entries"),
    [
        ({"decision": "reject"}, 0),
        ({"decision": "modify"}, 0),
        ({"decision": "reject", "generated": True}, 0),
        ({"decision": "reject", "verdict": {"door": "timer"}}, 1),
        # the person refused an identical call of the run, perhaps before the time that is looked back on
        ({"decision": "reject", "verdict": {"door": "grant"}}, 0),
        ({"decision": "approve", "verdict": {"door": "grant"}}, 1),
        ({"decision": None}, 1),
    ],
)
def test_a_persons_refusal_or_change_speaks_against_it(more: dict[str, Any], entries: int) -> None:
    calls = [*several(NOTES), *several([write("/notes/x.md")], first=20, **more)]
    assert len(advice_on(calls, TODAY).entries) == entries


def test_what_today_asks_nobody_is_no_question_any_more_but_its_refusals_count() -> None:
    free = ApprovalRules.model_validate({"rules": {"sandbox.write": "pre_approved"}})
    assert figures(advice_on(several(NOTES), free)) == (0, 0, 0, 0)
    known = ApprovalRules.model_validate({"allow": ({"tool": "write_file", "below": "/notes"},)})
    assert figures(advice_on(several([*NOTES, command("ls")]), known)) == (0, 1, 1, 0)
    # asked under older rules, and refused: a tool that is pre-approved today teaches that all the same
    calls = [*several(NOTES), *several([write("/notes/x.md", tool="edit_file")], "reject", first=20)]
    only_edits = ApprovalRules.model_validate({"allow": ({"tool": "edit_file", "below": "/notes"},)})
    assert advice_on(calls, only_edits).entries == ()


def test_no_entry_writes_what_an_entry_of_the_workshop_runs_nor_runs_what_one_writes() -> None:
    writes, runs = several([write(f"/tools/{name}.sh") for name in "abcd"]), several([command("bash tools/a.sh")] * 4)
    for calls, entry in ((writes, {"command": "bash tools/a.sh"}), (runs, {"tool": "write_file", "below": "/tools"})):
        assert len(advice_on(calls, TODAY).entries) == 1
        assert advice_on(calls, ApprovalRules.model_validate({"allow": (entry,)})).entries == ()


@pytest.mark.parametrize("terms", [{"approvers": ("ann",)}, {"quorum": 2}, {"forbid_own": True}])
def test_no_entry_answers_for_people_who_are_named(terms: dict[str, Any]) -> None:
    rules = ApprovalRules.model_validate({"rules": {"sandbox.write": terms}})
    assert figures(advice_on(several(NOTES), rules)) == (0, 5, 5, 0)


def test_a_rule_that_would_repeat_a_key_is_not_proposed() -> None:
    know_value("TEST_ADVICE_KEY", "sk-verysecretvalue-0123456789")
    calls = several([command("deploy-tool --token sk-verysecretvalue-0123456789")] * 4)
    assert figures(advice_on(calls, TODAY)) == (0, 4, 4, 0)
    assert len(advice_on(several([command("deploy-tool --now")] * 4), TODAY).entries) == 1


def test_examples_name_the_files_that_a_worker_is_given() -> None:
    calls = several([delegation("reader", f"/decks/{name}.pdf", task=f"read {name}") for name in "abcd"])
    (learned,) = advice_on(calls, TODAY).entries
    assert learned.entry.match == ("reader /decks/a.pdf", "reader /decks/c.pdf", "reader /decks/d.pdf")


def test_an_example_that_differs_by_its_link_alone_is_left_out() -> None:
    linked = write("/notes/x.md", place="files/secret/x.md")
    (learned,) = advice_on([*several(NOTES), *several([linked], "reject", first=20)], TODAY).entries
    assert learned.entry.not_match == ()


@pytest.mark.parametrize("program", [{"by": "program:bot", "via": "http"}, {"by": ""}], ids=["program", "no name"])
def test_what_a_program_or_nobody_with_a_name_decided_teaches_nothing_and_its_refusal_speaks_against(
    program: dict[str, str],
) -> None:
    assert figures(advice_on(several(NOTES, verdict=program), TODAY)) == (0, 0, 0, 0)
    mixed = [*several(NOTES[:2]), *several(NOTES[2:], first=10, verdict=program)]
    assert figures(advice_on(mixed, TODAY)) == (0, 2, 2, 0)
    assert figures(advice_on(several(NOTES, verdict={"by": "programmer"}), TODAY))[0] == 1
    refused = several([write("/notes/x.md")], "reject", first=20, verdict=program)
    assert len(advice_on([*several(NOTES), *refused], TODAY).entries) == 0
    assert refused[0].by == ""
