"""A function of the program that started a run, which answers the run's questions.

Owns the order in which the function is given questions. Called by `run_worker`. One door among others: the first answer
wins, and a question that the function leaves alone waits for other people.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.runs import RunResult

ApprovalCallback = Callable[[Question], Decision | Awaitable[Decision | None] | None]
"""Takes a question and returns the decision, or None to leave it to others. A plain function runs in a thread."""


async def result_with(client: LlmDoClient, run: str, callback: ApprovalCallback | None) -> RunResult:
    """Wait for the run's result while the callback answers its questions. Raises what the callback raises, too."""
    if callback is None:
        return await client.result(run)
    result = asyncio.ensure_future(client.result(run))
    answering = asyncio.ensure_future(_answer(client, run, callback))
    try:
        await asyncio.wait((result, answering), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            await answering
        return await result
    finally:
        for task in (result, answering):
            task.cancel()
        await asyncio.gather(result, answering, return_exceptions=True)


async def _answer(client: LlmDoClient, run: str, callback: ApprovalCallback) -> None:
    """Ask about each question once, one after the other, until the run ends."""
    seen: set[str] = set()
    async with translated(run):
        async for event in client.follow(run).events():
            if event.type != "desk.changed":
                continue
            # Asked for anew each time: somebody else may have answered meanwhile.
            while (question := await _next(client, run, seen)) is not None:
                seen.add(question.id)
                decision = await _call(callback, question)
                if decision is not None:
                    await _send(client, question, decision)


async def _next(client: LlmDoClient, run: str, seen: set[str]) -> Question | None:
    return next((one for one in await client.approvals(run) if one.id not in seen), None)


async def _call(callback: ApprovalCallback, question: Question) -> Decision | None:
    # A plain function may ask somebody, and wait.
    is_async = inspect.iscoroutinefunction(callback)
    said: Any = callback(question) if is_async else await asyncio.to_thread(callback, question)
    said = await said if inspect.isawaitable(said) else said
    if said is not None and not isinstance(said, Decision):
        raise UsageError(
            f"approval_callback returned {type(said).__name__} for '{question.id}'",
            next_step="It returns a Decision, such as Decision(decision='approve'), or None to leave it to others.",
        )
    return said


async def _send(client: LlmDoClient, question: Question, decision: Decision) -> None:
    """Decide about the question as it was shown. Raises DecisionRefused, unless another decision was faster."""
    facts: dict[str, Any] = {
        "id": question.id,
        "digest": question.request.digest or None,
        "by": decision.by or login_name(),
    }
    if decision.decision is DecisionKind.APPROVE and question.args != question.request.args:
        # Others have changed the call: agreeing names what was shown here.
        facts |= {"decision": DecisionKind.MODIFY, "args": question.args}
    try:
        await client.decide(question.run, decision.model_copy(update=facts))
    except DecisionRefused:
        if any(one.id == question.id for one in await client.approvals(question.run)):
            raise
