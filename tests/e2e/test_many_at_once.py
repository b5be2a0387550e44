"""Equal questions of several runs, decided together: with and without scripts, on a phone, and by everybody at once.

Last, every page is held against axe: here are runs of every kind.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, expect

from llm_do_temporal.client.open_questions import QuestionGroup, read_groups
from llm_do_temporal.client.question_document import group_title
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.messages.base import DECIDE_SIGNAL
from llm_do_temporal.messages.runs import Batch, BatchItem, StartRunInput
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.accessibility import PHONE_PIXELS, assert_accessible
from tests.support.people.office import Office, write
from tests.support.people.tmux import at_terminal

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
RUNS, WRITES = 3, 4
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


async def equal_questions(office: Office, name: str) -> QuestionGroup:
    """Start runs that write into a folder of this name, and return their questions once all of them are listed."""
    for number in range(RUNS):
        calls = [write(f"/{name}/{number}-{each}.md", f"# {each}") for each in range(WRITES)]
        await office.start(f"{name}-{number}", calls)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for group in (await read_groups(office.client)).groups:
                if group.title == f"write_file *.md in /{name}" and len(group.entries) == RUNS * WRITES:
                    return group
            await asyncio.sleep(0.05)


async def review(person: Page, office: Office, group: QuestionGroup, button: str) -> None:
    await person.goto(f"{office.link}/groups/{group.key}")
    await person.get_by_role("button", name=f"{button} all {len(group.entries)}").click()
    await expect(person.get_by_role("heading", level=1)).to_have_text(f"{button} these {len(group.entries)} questions?")


async def told(person: Page) -> dict[tuple[str, str], str]:
    """What the page of the outcomes says of each question."""
    await expect(person.get_by_role("heading", level=1)).to_contain_text(f"of {RUNS * WRITES}")
    await expect(person.locator("tbody tr")).to_have_count(RUNS * WRITES)
    rows = [await row.locator("td").all_inner_texts() for row in await person.locator("tbody tr").all()]
    return {(run.strip(), question.split()[0]): outcome for question, run, outcome in rows}


@pytest.mark.thorough
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_a_group_is_found_in_the_inbox_and_some_of_it_decided(office: Office, scripts: bool) -> None:
    name = f"some-{scripts}"
    group = await equal_questions(office, name)
    ada = await office.person(java_script_enabled=scripts, color_scheme="dark" if scripts else "light", **PHONE)
    await ada.goto(office.link)
    await expect(ada.get_by_role("link", name=f"{RUNS * WRITES} similar: {group_title(group.title)}")).to_be_visible()
    if scripts:
        await assert_accessible(ada, [PHONE_PIXELS])
    await ada.get_by_role("link", name=f"{RUNS * WRITES} similar: {group_title(group.title)}").click()
    await ada.wait_for_url(f"{office.link}/groups/{group.key}*")  # keys are heard once the page's scripts have run
    ticked = [ada.get_by_label(f"write_file /{name}/{number}-1.md") for number in range(RUNS)]
    if scripts:
        await ada.keyboard.press("A")
        await expect(ada.get_by_role("button", name=f"Approve all {RUNS * WRITES}")).to_be_focused()
        await ada.keyboard.press("X")
        await expect(ada.get_by_role("button", name=f"Approve {RUNS * WRITES} selected")).to_be_enabled()
        await ada.keyboard.press("X")
        await ada.keyboard.press("j")
        await ada.keyboard.press("x")
        await expect(ada.get_by_role("button", name="Approve 1 selected")).to_be_enabled()
        await ada.keyboard.press("x")
    for box in ticked:
        await box.check()
    if scripts:
        await assert_accessible(ada, [PHONE_PIXELS])
    await ada.get_by_role("button", name=f"Reject {RUNS if scripts else ''} selected".replace("  ", " ")).click()
    await ada.get_by_label("Reason").fill("not the first")
    if scripts:
        await assert_accessible(ada, [PHONE_PIXELS])
    await ada.get_by_role("button", name=f"Reject these {RUNS}").click()
    await expect(ada.get_by_role("heading", level=1)).to_have_text(f"{RUNS} of {RUNS} rejected")
    if scripts:
        await assert_accessible(ada, [PHONE_PIXELS])
    for number in range(RUNS):
        by_id = {one.request.args["path"]: one for one in await office.client.questions(f"{name}-{number}")}
        verdicts = {path: one.verdict for path, one in by_id.items()}
        rejected = verdicts.pop(f"/{name}/{number}-1.md")
        assert rejected is not None
        assert (rejected.by, rejected.note) == ("ada", "not the first")
        assert list(verdicts.values()) == [None] * (WRITES - 1)
        await office.client.cancel(f"{name}-{number}")


@pytest.mark.thorough
async def test_two_browsers_a_terminal_and_a_signal_decide_the_same_group_at_once(office: Office) -> None:
    group = await equal_questions(office, "race")
    all_of_it = RUNS * WRITES
    ada, bob = await office.person("ada"), await office.person("bob")
    await asyncio.gather(review(ada, office, group, "Approve"), review(bob, office, group, "Reject"))
    await bob.get_by_label("Reason").fill("too many")
    last = group.entries[-1]
    handle = office.client.temporal.get_workflow_handle(last.run)
    with at_terminal(office.desk) as terminal:
        terminal.command("approve", "--group", group.key, "--note", "typed")
        await asyncio.to_thread(terminal.see, f"approve these {all_of_it}? [y/N]")
        await asyncio.gather(
            asyncio.to_thread(terminal.type, "y"),
            handle.signal(DECIDE_SIGNAL, {"id": last.id, "decision": "approve", "by": "eve"}),
            ada.get_by_role("button", name="Approve these").click(),
            bob.get_by_role("button", name="Reject these").click(),
        )
        typed = await asyncio.to_thread(terminal.see, f"{all_of_it} decided:", "exit ")
    for number in range(RUNS):
        await office.client.result(f"race-{number}")

    asked = [one for number in range(RUNS) for one in await office.client.questions(f"race-{number}")]
    verdicts = {(one.run, one.id): one.verdict for one in asked if one.verdict is not None}
    assert len(verdicts) == all_of_it == len(asked)
    done = {"approve": "approved", "reject": "rejected"}
    people = {"ada": await told(ada), "bob": await told(bob)}
    for name, outcomes in people.items():
        assert outcomes.keys() == verdicts.keys()
        for question, verdict in verdicts.items():
            is_own = verdict.by == name
            words = done[verdict.decision] if is_own else f"late: somebody was faster: {done[verdict.decision]} by "
            assert outcomes[question].startswith(words + ("" if is_own else verdict.by)), outcomes[question]
    typist = [question for question, verdict in verdicts.items() if verdict.note == "typed"]
    for (run, approval), verdict in verdicts.items():
        line = f"late     {done[verdict.decision]} by {verdict.by} at"
        is_late = any(run in row and approval in row.split() and line in row for row in typed.splitlines())
        assert is_late is ((run, approval) not in typist), typed
    assert (f"{len(typist)} taken" in typed) is bool(typist)
    assert f"exit {0 if len(typist) == all_of_it else 2}" in typed
    for one in asked:
        is_approved = verdicts[one.run, one.id].decision == "approve"
        assert (office.read(one.request.args["path"].lstrip("/")) is not None) is is_approved


@pytest.mark.thorough
async def test_no_page_puts_anybody_at_a_disadvantage(office: Office) -> None:
    (office.desk.workshop / "files/axe.txt").write_text("before\n")
    calls = [write("/axe.txt", "line\n" * 100 + "\u202e"), write("/table/axe.csv", "a,b\n1,2\n")]
    await office.asking("axe", calls)
    await office.asks("axe", "a2")
    items = (BatchItem(name="good", prompt="[]"), BatchItem(name="bad.pdf", unusable="the file 'bad.pdf' is empty"))
    await office.client.start(StartRunInput(worker="clerk", batch=Batch(items=items)), run="batch")
    ids = {one.request.args["path"]: one.id for one in await office.client.questions("axe")}
    address, other = office.approval("axe", ids["/axe.txt"]), office.approval("axe", ids["/table/axe.csv"])
    ada = await office.person()
    pages = ["/sign-in", "/", "/nowhere", "/runs", "/charts", "/start"]
    pages += [f"/runs/axe{page}" for page in ("", "/invocations/main", "/cancel", "/approvals")]
    for where in (*(office.link + page for page in pages), address, other, f"{address}/edit", f"{address}/edit?raw"):
        await ada.goto(where)
        await assert_accessible(ada)
    await ada.goto(f"{address}/edit")
    # Hidden characters are edited as JSON.
    await ada.get_by_label("content").fill("no JSON")
    await ada.get_by_role("button", name="Show the difference").click()
    await expect(ada.get_by_role("alert")).to_contain_text("content: ")
    await assert_accessible(ada)
    await ada.get_by_label("content").fill('"other"')
    await ada.get_by_role("button", name="Show the difference").click()
    await expect(ada.get_by_role("heading", level=1)).to_contain_text("with these changes?")
    await assert_accessible(ada)
    remembered = Decision(id=ids["/axe.txt"], decision=DecisionKind.REJECT, note="seen", remember=Remember.SESSION)
    await office.client.decide("axe", remembered)
    await ada.goto(other)
    await ada.get_by_label("Agree to write_file of .csv files below /table").check()
    await ada.locator(".decide").get_by_role("button", name="Approve", exact=True).click()
    await office.client.result("axe")
    assert (await office.client.result("batch")).items is not None
    entry = "days=7&add={tool: write_file, below: /x}"
    pages = ["/runs/axe", "/runs/axe/grants", f"/rules?{entry}", "/rules?add=x"]
    pages += ["/runs/batch", "/runs/batch/retry"]
    for where in (*(office.link + page for page in pages), address, other):
        await ada.goto(where)
        await ada.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        await assert_accessible(ada)
