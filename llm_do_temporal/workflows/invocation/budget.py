"""The budget of one invocation: it spends the lease that the desk granted it, and asks for more when that is used up.

Makes no event of the history where no limit is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from pydantic_ai.messages import ModelResponse
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import BudgetExceeded, LlmDoError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.messages.runs import InvokeWorkerInput, workflow_id_of
from llm_do_temporal.policy.approvals import Mode, terms_of
from llm_do_temporal.policy.budget import (
    MEASURED,
    NOTHING,
    RESERVED,
    Account,
    Action,
    Amounts,
    Dimension,
    Limits,
    Report,
    agreed_limit,
    described,
    highest_limit,
)
from llm_do_temporal.policy.values import LIMIT, CapabilityUse
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.runtime.spans import is_generated, worker_label
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, ToolQuestion

_TURN = Amounts(turns=1)
_CALL = Amounts(tool_calls=1)
_INVOCATION = Amounts(invocations=1)


class BudgetLease:
    """Amounts that an invocation may spend, leased from the run's desk."""

    def __init__(
        self,
        invocation: InvokeWorkerInput,
        spending: Spending,
        tell: Callable[[Report], Awaitable[None]],
    ) -> None:
        """`tell` takes reports to the desk."""
        self.state = spending
        self.worker = worker_label(invocation.worker.name, generated=is_generated(invocation.worker))
        """Label of the invocation's worker in metrics."""
        self._invocation = invocation
        self._limited = invocation.limited
        self._waiting = Amounts()
        """Amounts that calls wait for now, together."""
        self._asking = False
        self._overdue: tuple[str, ...] = ()
        self._speaking = asyncio.Lock()
        self._tell = tell

    async def begin_turn(self) -> None:
        """Wait until the limits allow a turn, and reserve it."""
        if self.state.in_turn or not self._limited:
            return
        if not self._covers(_TURN):
            self._drop_turns()
        await self._reserve(_TURN)
        self._update(in_turn=True)

    async def end_turn(self, response: ModelResponse, model: str) -> None:
        """Count the tokens and the cost of a turn that `model` answered.

        The activity has priced the turn: a price must not change in a replay.
        """
        cost, tokens = response.usage.cost, response.usage.total_tokens
        unpriced = (model,) if cost is None else ()
        self._add_cost(Usage(cost_usd=cost, unpriced=unpriced, costs={model: cost} if cost else {}))
        if not self._limited:
            return
        took = Amounts(tokens=tokens, cost=cost or NOTHING)
        state = self.state
        self._update(
            in_turn=False,
            spent=state.spent.plus(took),
            holds=state.holds.minus(took).largest(Amounts()),
            turn=took if state.turn is None else state.turn.largest(took),
            unpriced=tuple(sorted({*state.unpriced, *unpriced})),
        )
        if state.recalled or not self._covers(_TURN) or (unpriced and Dimension.COST in self._limited):
            self._drop_turns()
        if state.recalled and state.holds != self.state.holds:
            await self.report()

    async def begin_call(self) -> None:
        """Wait until the limits allow a tool call, and reserve it."""
        if Dimension.TOOL_CALLS in self._limited:
            await self._reserve(_CALL)

    async def begin_invocation(self) -> None:
        """Wait until the limits allow the call of another worker, and reserve it."""
        if Dimension.INVOCATIONS in self._limited:
            await self._reserve(_INVOCATION)

    def add_below(self, usage: Usage) -> None:
        """Count the cost of a call of another worker, for the sum of the tree only: the desk has it from that
        worker."""
        self._add_cost(usage)

    def take(self, action: Action) -> None:
        """Add a grant of the desk; a grant that came twice is added once."""
        state = self.state
        if action.number == state.grants + 1:
            self._update(grants=action.number, holds=state.holds.plus(action.amounts), recalled=False)
            self._asking = False

    async def give_back(self) -> None:
        """Give all that is not needed at once back to the desk, and report; from now on each end of a turn is
        reported."""
        holds = self.state.holds
        if self.state.in_turn:
            turn = self.state.turn or holds
            kept = Amounts(tokens=min(holds.tokens, turn.tokens), cost=min(holds.cost, turn.cost))
        else:
            kept = Amounts()
        self._update(recalled=True, holds=kept)
        await self.report()

    async def time_is_up(self, account: str) -> None:
        """Tell the desk that an account of this invocation has used up its time."""
        self._overdue = (*self._overdue, account)
        await self.report()
        self._overdue = ()

    def allow_time(self, account: str, seconds: int) -> None:
        """Remember the new time limit of an account, in seconds, for the time after the workflow was continued as
        new."""
        self._update(times={**self.state.times, account: seconds})

    async def close(self) -> None:
        """Report the final spending to the desk. The entry worker reports none: its desk closes with it."""
        if self._limited and "/" in self._invocation.path:
            self._waiting = Amounts()
            await self.report(ended=True)

    async def report(self, *, ended: bool = False) -> None:
        """Report spending, holdings and wants to the desk."""
        async with self._speaking:
            state, invocation = self.state, self._invocation
            report = Report(
                invocation=workflow_id_of(invocation.run, invocation.path),
                path=invocation.path,
                spent=state.spent,
                holds=state.holds,
                wants=self._waiting,
                grants=state.grants,
                turn=state.turn,
                unpriced=state.unpriced,
                limits=invocation.worker.limits,
                overdue=self._overdue,
                ended="yes" if ended else "no",
            )
            await self._tell(report)

    async def _reserve(self, wants: Amounts) -> None:
        self._waiting = self._waiting.plus(wants)
        try:
            while not self._covers(wants):
                if not self._asking:
                    self._asking = True
                    await self.report()
                await workflow.wait_condition(lambda: not self._asking)
        except asyncio.CancelledError:
            # Other calls that wait send a report of their own.
            self._asking = False
            raise
        finally:
            self._waiting = self._waiting.minus(wants)
        state = self.state
        self._update(spent=state.spent.plus(wants), holds=state.holds.minus(wants))

    def _covers(self, wants: Amounts) -> bool:
        holds = self.state.holds
        counted = all(holds.of(name) >= wants.of(name) for name in RESERVED)
        took = self.state.turn or Amounts()  # where turns have taken nothing, nothing is reserved for them
        measured = [name for name in MEASURED if wants.turns and name in self._limited and took.of(name) > 0]
        return counted and all(holds.of(name) > 0 for name in measured)

    def _drop_turns(self) -> None:
        """Stop holding amounts for further turns."""
        self._update(holds=self.state.holds.model_copy(update={"turns": 0, "tokens": 0, "cost": NOTHING}))

    def _add_cost(self, spent: Usage) -> None:
        state = self.state
        before = Usage(cost_usd=state.tree_cost, unpriced=state.tree_unpriced, costs=state.tree_costs)
        added = before.plus(spent)
        self._update(tree_cost=added.cost_usd, tree_unpriced=added.unpriced, tree_costs=added.costs)

    def _update(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)


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
