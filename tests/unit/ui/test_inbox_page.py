"""The inbox as a page, with more questions than a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from llm_do_temporal.client.open_questions import InboxEntry, LockedRun
from llm_do_temporal.ui.pages.inbox import MOST_CHOICES, PAGE_CARDS
from tests.support.people.browser import Page
from tests.support.people.inbox import NOW, Waiting, waiting_entry
from tests.support.people.signed_in import browser_with


def entries(count: int, runs: int) -> list[InboxEntry]:
    return [
        waiting_entry(
            run=f"run-{number % runs}",
            id=f"a{number}",
            worker="boss" if number % 2 else "helper",
            summary=f"wish {number}.",
            asked_at=NOW + timedelta(seconds=number),
        )
        for number in range(count)
    ]


async def opened(waiting: Waiting, address: str) -> Page:
    return await (await browser_with(waiting)).open(address)


def shown(page: Page, among: Sequence[InboxEntry]) -> list[int]:
    """The numbers of the calls that stand on the page."""
    return [number for number, one in enumerate(among) if one.summary in page.text]


async def test_a_question_of_a_batch_names_its_item() -> None:
    (one,) = entries(1, runs=1)
    page = await opened(Waiting([replace(one, item="b<i>.pdf")]), "/")
    assert "helper b<i>.pdf asked" in page.text


async def test_many_questions_are_in_parts_the_oldest_first() -> None:
    waiting = Waiting(among := entries(2 * PAGE_CARDS + 1, runs=3))
    first = await opened(waiting, "/")
    assert f"{len(among)} calls wait for a person" in first.text
    assert shown(first, among) == list(range(PAGE_CARDS))
    assert 'href="/?page=2"' in first.html
    assert "Asked earlier" not in first.text
    second = await opened(waiting, "/?page=2")
    assert shown(second, among) == list(range(PAGE_CARDS, 2 * PAGE_CARDS))
    third = await opened(waiting, "/?page=3")
    assert shown(third, among) == [2 * PAGE_CARDS]
    assert 'href="/?page=2"' in third.html
    assert "Asked later" not in third.text


async def test_a_part_is_one_of_what_the_filters_let_through() -> None:
    waiting = Waiting(among := entries(3 * PAGE_CARDS, runs=3))
    page = await opened(waiting, "/?worker=boss&page=2")
    assert shown(page, among) == list(range(1, 3 * PAGE_CARDS, 2))[PAGE_CARDS:]
    assert 'href="/?worker=boss&amp;page=1"' in page.html


async def test_runs_that_cannot_be_read_come_after_the_last_question() -> None:
    locked = [LockedRun(f"locked-{number}.", "boss", 1, NOW, "other") for number in range(PAGE_CARDS)]
    waiting = Waiting(entries(PAGE_CARDS // 2, runs=1), locked)
    first = await opened(waiting, "/")
    second = await opened(waiting, "/?page=2")
    half = PAGE_CARDS // 2
    assert [one.run in first.text for one in locked] == [True] * half + [False] * half
    assert [one.run in second.text for one in locked] == [False] * half + [True] * half


@pytest.mark.parametrize("page", ["", "0", "-1", "x", "9999999999999", "٣"])
async def test_an_address_that_names_no_part_shows_the_first(page: str) -> None:
    waiting = Waiting(among := entries(3, runs=1))
    assert shown(await opened(waiting, f"/?page={page}"), among) == [0, 1, 2]


@pytest.mark.parametrize(("runs", "is_typed"), [(MOST_CHOICES, False), (MOST_CHOICES + 1, True)])
async def test_a_filter_with_many_values_is_typed(runs: int, *, is_typed: bool) -> None:
    page = await opened(Waiting(entries(runs, runs=runs)), "/")
    assert ('<input id="filter-run" name="run" type="search" value="">' in page.html) is is_typed
    assert ('<select id="filter-run"' in page.html) is not is_typed
    filtered = await opened(Waiting(entries(runs, runs=runs)), "/?run=run-7")
    assert "wish 7." in filtered.text
    assert "wish 8." not in filtered.text


async def test_the_page_says_that_there_are_more_runs_than_it_shows() -> None:
    page = await opened(Waiting(entries(3, runs=3), further=9000), "/")
    assert "3 calls wait for a person. They are of the oldest runs; 9000 more runs wait, too." in page.text
    assert "<title>(3+) Inbox" in page.html
    assert "oldest" not in (await opened(Waiting(entries(3, runs=3)), "/")).text


async def test_the_page_never_says_that_nothing_waits_where_more_runs_wait() -> None:
    locked = [LockedRun("locked", "boss", 1, NOW, "other")]
    for waiting in (Waiting([], further=1), Waiting([], locked, further=1)):
        page = await opened(waiting, "/")
        assert "1 more run waits for a person." in page.text
        assert "Nothing" not in page.text
    assert "Nothing waits for a person." in (await opened(Waiting([]), "/")).text


@pytest.mark.parametrize("further", [0, 7])
async def test_a_run_that_asks_nothing_leaves_the_rest_of_the_inbox_told_and_offered(further: int) -> None:
    page = await opened(Waiting(entries(6, runs=3), further=further), "/?run=typo")
    assert "0 of 6 calls that wait for a person." in page.text
    assert "Nothing waits" not in page.text
    for run in ("run-0", "run-1", "run-2", "typo"):
        assert f'<option value="{run}"' in page.html


async def test_a_filter_finds_a_run_that_the_inbox_has_not_got_to() -> None:
    among = entries(4, runs=4)
    waiting = Waiting(among[:3], further=2, unread=among[3:])
    page = await opened(waiting, "/?run=run-3")
    assert shown(page, among) == [3]
    assert "1 of 4 calls that wait for a person. They are of the oldest runs; 1 more run waits, too." in page.text


async def test_a_filter_for_a_run_hides_other_runs_that_cannot_be_read() -> None:
    locked = [LockedRun(f"locked-{number}.", "boss", 1, NOW, "other") for number in range(2)]
    page = await opened(Waiting(entries(1, runs=1), locked), "/?run=locked-1.")
    assert 'id="locked-1.-locked"' in page.html
    assert 'id="locked-0.-locked"' not in page.html


@pytest.mark.parametrize("page", ["3", "99999999"])
async def test_an_address_past_the_end_shows_the_last_part(page: str) -> None:
    waiting = Waiting(among := entries(PAGE_CARDS + 2, runs=1))
    last = await opened(waiting, f"/?page={page}")
    assert shown(last, among) == [PAGE_CARDS, PAGE_CARDS + 1]
    assert 'href="/?page=1"' in last.html
    assert "Asked later" not in last.text
