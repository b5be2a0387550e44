"""The budget of one invocation: it spends the lease that the desk granted it, and asks for more when that is used up.

Makes no event of the history where no limit is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai.messages import ModelResponse
from temporalio import workflow

from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.messages.runs import InvokeWorkerInput, workflow_id_of
from llm_do_temporal.policy.budget import MEASURED, NOTHING, RESERVED, Action, Amounts, Dimension, Report
from llm_do_temporal.workflows.runtime.metrics import is_generated, worker_label

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
