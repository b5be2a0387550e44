"""Conversations at hand take a bounded part of a process's memory: those used longest ago leave it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models import conversations
from llm_do_temporal.activities.models.conversations import Conversations
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING, ConversationPart

CHARACTERS = 1_000

Alive = Callable[[], ModelMessage | None]


async def seen(memory: Conversations, run: str) -> Alive:
    """A conversation of about 1,000 characters in a run, and whether its message is still in memory."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_run_id=run)
    message: ModelMessage = ModelRequest(parts=[UserPromptPart("x" * CHARACTERS)], instructions="Be brief.")
    part = ConversationPart(number=1).model_dump(mode="json")
    settings: ModelSettings = {CONVERSATION_SETTING: part}  # type: ignore[misc]
    await environment.run(memory.whole, [message], settings, ModelRequestParameters())
    return weakref.ref(message)


@pytest.mark.parametrize(("room", "kept"), [(10, 4), (2.5, 2), (1.5, 1), (0.5, 1)])
async def test_what_was_used_longest_ago_leaves_memory(monkeypatch: pytest.MonkeyPatch, room: float, kept: int) -> None:
    monkeypatch.setattr(conversations, "KEPT_CHARACTERS", int(room * CHARACTERS * 1.02))
    memory = Conversations(None)
    alive = [await seen(memory, f"run-{number}") for number in range(4)]
    gc.collect()
    assert [one() is not None for one in alive] == [False] * (4 - kept) + [True] * kept


async def test_small_conversations_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "KEPT_CONVERSATIONS", 2)
    memory = Conversations(None)
    alive = [await seen(memory, f"run-{number}") for number in range(4)]
    gc.collect()
    assert [one() is not None for one in alive] == [False, False, True, True]


async def test_a_conversation_that_goes_on_was_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "KEPT_CHARACTERS", int(2.5 * CHARACTERS))
    memory = Conversations(None)
    await seen(memory, "first")
    second = await seen(memory, "second")
    again = await seen(memory, "first")
    third = await seen(memory, "third")
    gc.collect()
    assert [one() is not None for one in (second, again, third)] == [False, True, True]
