"""Errors of the server while a run is being watched, and the wait for its first questions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.cli.terminal import attend
from llm_do_temporal.cli.terminal.attend import ConnectionLost, explained, first_questions
from llm_do_temporal.client.client import Question
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.errors import ConnectionFailed, UsageError


@pytest.mark.parametrize(
    ("message", "status", "kind", "words"),
    [
        ("workflow not found for ID: job", RPCStatusCode.NOT_FOUND, UsageError, "run 'job' is no longer on the server"),
        (  # of the production server, whose namespace has no archive
            "Requested workflow history not found, may have passed retention period.",
            RPCStatusCode.INVALID_ARGUMENT,
            UsageError,
            "run 'job' is no longer on the server",
        ),
        ("connection refused", RPCStatusCode.UNAVAILABLE, ConnectionLost, "connection refused"),
        ("Invalid RunId.", RPCStatusCode.INVALID_ARGUMENT, ConnectionFailed, "refused: Invalid RunId."),
    ],
)
def test_a_run_that_is_gone_is_told_from_a_server_that_is_gone(
    message: str, status: RPCStatusCode, kind: type[Exception], words: str
) -> None:
    error = explained(RPCError(message, status, b""), "job")
    assert type(error) is kind
    assert words in str(error)


QUESTIONS = cast("list[Question]", ["a question"])


def seen(*pending: str) -> Any:
    """Return what a history shows of a run with these open questions."""
    return SimpleNamespace(pending=list(pending), nodes={})


async def test_a_question_that_is_answered_but_not_noted_is_looked_up_at_news_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attend, "SETTLE_SECONDS", 3_600)
    news, asked = asyncio.Event(), asyncio.Event()
    reads = 0

    async def read() -> list[Question]:
        nonlocal reads
        reads += 1
        asked.set()
        return QUESTIONS if reads == 3 else []

    waiting = asyncio.create_task(first_questions(cast("RunView", seen("a-1")), news, read))
    for number in (1, 2, 3):
        await asked.wait()
        asked.clear()
        for _ in range(100):
            await asyncio.sleep(0)
        assert reads == number
        news.set()
    assert await waiting == QUESTIONS


async def test_without_news_it_is_looked_up_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "SETTLE_SECONDS", 0)
    found = iter([[], [], QUESTIONS])

    async def read() -> list[Question]:
        return next(found)

    assert await first_questions(cast("RunView", seen("a-1")), asyncio.Event(), read) == QUESTIONS


async def test_any_number_of_looks_nests_nothing() -> None:
    news, reads = asyncio.Event(), 0

    async def read() -> list[Question]:
        nonlocal reads
        reads += 1
        news.set()
        return QUESTIONS if reads == 5_000 else []

    assert await first_questions(cast("RunView", seen("a-1")), news, read) == QUESTIONS


async def test_nothing_is_looked_up_before_the_history_has_a_question() -> None:
    news, view = asyncio.Event(), seen()

    async def read() -> list[Question]:
        assert view.pending
        return QUESTIONS

    waiting = asyncio.create_task(first_questions(cast("RunView", view), news, read))
    for _ in range(100):
        await asyncio.sleep(0)
        news.set()
    assert not waiting.done()
    view.pending.append("a-1")
    news.set()
    assert await waiting == QUESTIONS
