"""The page of the rules: today's in words, past calls when they are asked for, one more entry tried, none written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from llm_do_temporal.extensions.rules.page import MAX_ENTRY_CHARS, MOST_ROWS
from llm_do_temporal.extensions.rules.trial import PastCall, PastCalls
from tests.support.extensions.rules.past_calls import asked_to_write, past_call, past_calls
from tests.support.people.browser import Page
from tests.support.people.signed_in import SCRIPT, browser_with

WORKSHOP = "approvals:\n  rules:\n    sandbox.read: {ruling: needs_approval, approvers: [ann]}\n  allow:\n"
PLANS = "  - {tool: write_file, below: /plans, why: plans are ours}\n"
NOTES = quote("{tool: write_file, below: /notes}")


@dataclass
class Past:
    """Past calls that were read, and how often somebody asked for them."""

    calls: tuple[PastCall, ...] = ()
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[int] = field(default_factory=list[int])

    async def tried(self, days: int, key: str, trial: Callable[[PastCalls], Any]) -> Any:
        """See SharedPastCalls."""
        assert key
        self.asked.append(days)
        return trial(past_calls(*self.calls, **self.more))


async def opened(folder: Path | None, address: str, past: Past | None = None) -> Page:
    browser = await browser_with(None, folder=folder, state={"past_calls": past or Past()})
    return await browser.open(address)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workshop.yaml").write_text(WORKSHOP + PLANS)
    return tmp_path


def some_calls() -> Past:
    return Past(
        (
            past_call(asked_to_write("/notes/a.md"), run="good-run"),
            past_call(asked_to_write("/notes/b.md"), "reject", run="bad-run", note=f"no {SCRIPT}"),
            past_call(asked_to_write("/plans/c.md"), run="plan-run", task=f"Plan {SCRIPT}"),
        )
    )


async def test_todays_rules_stand_in_words_and_no_history_is_read(folder: Path) -> None:
    past = some_calls()
    page = await opened(folder, "/rules", past)
    assert page.status == 200
    assert "asks ann" in page.text
    assert "read a file, or hand one to a worker" in page.text
    assert "write_file of files below /plans (plans are ours)" in page.text
    assert past.asked == []


async def test_past_calls_are_looked_at_when_somebody_asks(folder: Path) -> None:
    past = some_calls()
    first = await opened(folder, "/rules")
    (look, _) = first.forms
    assert look.fields == {"days": "30"}
    page = await opened(folder, "/rules?days=30", past)
    assert past.asked == [30]
    assert "3 calls in 3 runs of the last 30 days: 3 asked then, 2 would ask today" in page.text
    assert "1 newly passed" in page.text
    assert f"Plan {SCRIPT} run plan-run" in page.text
    assert SCRIPT not in page.html
    assert "Nothing newly passes that a person rejected or changed" in page.text
    assert "a sibling folder with the same beginning" in page.text


async def test_suggestions_stand_there_with_their_change_and_all_that_they_newly_pass(folder: Path) -> None:
    calls = [
        past_call(asked_to_write(f"/evaluations/{number}.md"), run=f"run-{number}", days_ago=number + 1)
        for number in range(6)
    ]
    calls.append(past_call(asked_to_write("/secrets/x.md"), "reject", run="bad-run"))
    page = await opened(folder, "/rules?days=30", Past(tuple(calls)))
    assert "Asked 7 times in 30 days; this rule leaves 1" in page.text
    assert "it newly passes none that was rejected or changed" in page.text
    assert "+++ b/workshop.yaml" in page.text
    assert all(f"{line} " in page.text for line in ("tool: write_file", "folder: /evaluations", "callers: [clerk]"))
    assert "6 newly passed" in page.text
    assert "/runs/bad-run/" not in page.html
    assert (folder / "workshop.yaml").read_text() == WORKSHOP + PLANS


async def test_a_file_without_a_place_for_entries_is_told(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("limits: &one {}\napprovals: *one\n")
    calls = tuple(
        past_call(asked_to_write(f"/evaluations/{number}.md"), run=f"run-{number}", days_ago=number + 1)
        for number in range(6)
    )
    page = await opened(tmp_path, "/rules?days=30", Past(calls))
    assert page.status == 200
    assert "has no place for more entries" in page.text


async def test_one_more_entry_is_compared_with_todays_rules(folder: Path) -> None:
    page = await opened(folder, f"/rules?days=7&add={NOTES}", some_calls())
    assert page.status == 200
    assert "3 asked under today's rules" not in page.text
    assert "2 asked under today's rules, 0 would ask with it" in page.text
    assert "1 call newly passes though a person rejected or changed it" in page.text
    assert page.html.index("/runs/bad-run/") < page.html.index("/runs/good-run/")
    assert "/runs/plan-run/" not in page.html
    assert "rejected by ann: no <script>" in page.text
    assert SCRIPT not in page.html
    assert (folder / "workshop.yaml").read_text() == WORKSHOP + PLANS


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{tool: write_file}", "a kind of calls is"),
        (SCRIPT, "cannot be used"),
        ("x" * (MAX_ENTRY_CHARS + 1), "longer than 4,000 characters"),
    ],
)
async def test_an_entry_that_cannot_be_one_stays_in_the_form_with_the_reason(
    folder: Path, entry: str, reason: str
) -> None:
    past = some_calls()
    page = await opened(folder, f"/rules?add={quote(entry)}", past)
    assert page.status == 422
    assert reason in page.text
    assert page.forms[1].fields["add"] == entry[:MAX_ENTRY_CHARS]
    assert SCRIPT not in page.html
    assert past.asked == []


@pytest.mark.parametrize("days", ["", "0", "31", "x", "-7", "9999999999"])
async def test_an_address_with_other_days_reads_nothing(folder: Path, days: str) -> None:
    past = Past()
    assert (await opened(folder, f"/rules?days={days}", past)).status == 200
    assert past.asked == []


async def test_a_workshop_elsewhere_or_with_mistakes_is_told(tmp_path: Path) -> None:
    page = await opened(None, "/rules?days=30")
    assert (page.status, "not on this machine" in page.text) == (200, True)
    (tmp_path / "workshop.yaml").write_text("approvals: {allow: [{tool: write_file}]}\n")
    page = await opened(tmp_path, "/rules?days=30")
    assert (page.status, "a kind of calls is" in page.text) == (200, True)


async def test_what_cannot_be_shown_is_counted(folder: Path) -> None:
    many = tuple(
        past_call(asked_to_write(f"/plans/{number}.md"), run=f"run-{number}") for number in range(MOST_ROWS + 1)
    )
    page = await opened(folder, "/rules?days=90", Past(many, {"locked": ("x",), "is_cut": True}))
    assert "1 more; llm-do-temporal rules test lists all" in page.text
    assert "1 run cannot be read here" in page.text
    assert "Only the newest runs were looked at" in page.text


async def test_a_strict_workshop_says_so(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("approvals: {mode: strict}\n")
    assert "The workshop's mode is strict" in (await opened(tmp_path, "/rules")).text


@pytest.mark.parametrize(
    "address", ["/static/rules/rules.css", "/static/rules/../rules/page.py", "/static/rules/%2e%2e/page.py"]
)
async def test_files_of_the_page_are_served_and_no_other_of_its_folder(folder: Path, address: str) -> None:
    page = await opened(folder, "/rules")
    assert '<link rel="stylesheet" href="/static/rules/rules.css">' in page.html
    assert (await opened(folder, address)).status == (200 if address.endswith("rules.css") else 404)
