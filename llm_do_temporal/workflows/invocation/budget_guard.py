"""The guard of the limits that belong to an invocation: when one is reached, it asks a person, or stops the work.

The work below stops with it. Where no person can be asked, or the answer is no, it fails with BudgetExceeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import BudgetExceeded, LlmDoError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.approvals import Mode, terms_of
from llm_do_temporal.policy.budget import Account, Action, Dimension, Limits, agreed_limit, described, highest_limit
from llm_do_temporal.policy.values import LIMIT, CapabilityUse
from llm_do_temporal.workflows.invocation.budget import BudgetLease
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, ToolQuestion

T = TypeVar("T")


@dataclass(frozen=True)
class LimitQuestion:
    """Question at a reached limit, in the place of a tool."""

    dimension: Dimension
    spent: Decimal
    name: str = "go_on"
    description: str = "Go on past a limit."

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; a person may change only `next`, to any limit above `spent`."""
        return {
            "type": "object",
            "properties": {
                "limit": {"type": "string"},
                "spent": {"type": "number"},
                "next": {
                    "type": "number",
                    "exclusiveMinimum": float(self.spent),
                    "maximum": highest_limit(self.dimension),
                },
            },
            "required": ["next"],
            "additionalProperties": False,
        }


class BudgetGuard:
    """Guard of the limits that belong to one invocation."""

    def __init__(self, invocation: InvokeWorkerInput, lease: BudgetLease, desk: AsksDesk | None) -> None:
        """`desk` None: no person is asked, whatever the mode."""
        self._invocation = invocation
        self._lease = lease
        self._desk = desk
        self._reached: list[Account] = []
        self._ends: dict[str, datetime] = {}
        """Moments at which the time of accounts is up, by their paths."""
        for account, limits in self._limits.items():
            self._set_end(account, lease.state.times.get(account, limits.time))

    @property
    def _limits(self) -> dict[str, Limits]:
        own = {self._invocation.path: self._invocation.worker.limits}
        return own if "/" in self._invocation.path else {"": self._invocation.settings.limits, **own}

    @property
    def is_needed(self) -> bool:
        """Whether any limit belongs to the invocation."""
        return any(limits.set_ones for limits in self._limits.values())

    async def apply(self, action: Action) -> None:
        """Carry out an action of the desk: a grant, a recall, or the news that a limit is reached."""
        if action.kind == "grant":
            self._lease.take(action)
        elif action.kind != "reached":
            await self._lease.give_back()
        elif action.account is not None:
            self._reached.append(action.account)

    async def until_stopped(self) -> LlmDoError:
        """Wait until the invocation must stop, and return the reason."""
        while True:
            await self._wait()
            while self._reached:
                account = self._reached.pop(0)
                refused = await self._go_on(account)
                if refused is not None:
                    return refused

    async def _wait(self) -> None:
        end = min(self._ends.values(), default=None)
        left = None if end is None else max(timedelta(0), end - workflow.now())
        try:
            await workflow.wait_condition(
                lambda: bool(self._reached), timeout=left, timeout_summary="time limit" if left else None
            )
        except TimeoutError:
            due = [account for account, at in self._ends.items() if at <= workflow.now()]
            for account in due:
                del self._ends[account]
                await self._lease.time_is_up(account)

    async def _go_on(self, account: Account) -> BudgetExceeded | None:
        """Ask a person whether to go on past the limit.

        Returns the reason to stop where the answer is no, or no person can be asked; None: the work goes on.
        """
        dimension = account.reached
        limit = None if dimension is None else account.limits.of(dimension)
        if dimension is None or limit is None:
            return None
        spent = limit if dimension is Dimension.TIME else account.spent.of(dimension)
        reached = _reached_text(account, dimension, spent, limit)
        if self._desk is None or self._invocation.settings.mode is not Mode.INTERACTIVE:
            return _stopped(account, dimension, reached)
        further = _next(account, dimension, spent, limit)
        args = {"limit": dimension, "spent": _number(spent), "next": _number(further)}
        use = CapabilityUse(name=LIMIT, payload={"of": account.path or "the run", **args})
        summary = f"{reached}; go on to {described(dimension, further)}?"
        reason = "a limit is reached: approve to go on to `next`, change `next` for another limit, reject to stop"
        terms = terms_of(self._invocation.settings.rules, [LIMIT])
        question = ToolQuestion((use,), args, summary)
        verdict = await self._desk.ask(
            LimitQuestion(dimension, spent), question, reason=reason, terms=terms, account=account.path
        )
        if verdict.decision is DecisionKind.REJECT:
            note = f": {verdict.note}" if verdict.note else ""
            why = verdict.note if verdict.door == "timer" else f"{verdict.by or 'a person'} decided to stop{note}"
            return _stopped(account, dimension, f"{reached}; {why}")
        if dimension is Dimension.TIME:
            seconds = int(agreed_limit(dimension, verdict.args, args))
            self._lease.allow_time(account.path, seconds)
            self._set_end(account.path, seconds)
        return None

    def _set_end(self, account: str, seconds: int | None) -> None:
        begun = self._invocation.started_at
        if seconds is not None and begun is not None:
            self._ends[account] = begun + timedelta(seconds=seconds)


async def within(work: Coroutine[Any, Any, T], guard: BudgetGuard) -> T:
    """Return the result of the work, unless its guard stops it. A cancellation reaches the work before it leaves.

    Raises the guard's reason to stop.
    """
    running, watching = asyncio.create_task(work), asyncio.create_task(guard.until_stopped())
    try:
        await workflow.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _stop(running, watching)
        raise
    if running.done():
        await _stop(watching)
        return running.result()
    await _stop(running)
    try:
        raise watching.result()
    except FailureError as failure:
        raise explain(failure) from failure


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await workflow.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: the error of a stopped task does not matter any more


def _reached_text(account: Account, dimension: Dimension, spent: Decimal, limit: Decimal) -> str:
    who = account.path or "the run"
    if account.counts_unknown(dimension):
        models = ", ".join(account.unpriced)
        return f"{who} has used {models}, whose price is not known, with a limit of {described(Dimension.COST, limit)}"
    if dimension is Dimension.TIME:
        return f"{who} has gone on for {described(dimension, limit)}, its limit"
    return f"{who} has spent {described(dimension, spent)}, its limit is {described(dimension, limit)}"


def _next(account: Account, dimension: Dimension, spent: Decimal, limit: Decimal) -> Decimal:
    """Return the next limit: raised in steps of the first limit until it is above the spent amount."""
    step = account.steps.of(dimension) or limit
    if account.counts_unknown(dimension) and spent < limit:
        return limit
    return limit + step * max(1, int((spent - limit) / step) + 1)


def _stopped(account: Account, dimension: Dimension, reached: str) -> BudgetExceeded:
    where = f"the worker's `limits: {dimension}`" if account.path else f"`limits: {dimension}` in workshop.yaml"
    flag = "" if account.path else f", or start with --max-{dimension.replace('_', '-')}"
    return BudgetExceeded(f"limit reached: {reached}", next_step=f"Raise {where}{flag}.")


def _number(amount: Decimal) -> int | float:
    return int(amount) if amount == int(amount) else float(amount)
