"""The desk's side of limits: takes reports of spending, grants leases to invocations, raises limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.messages.approvals import Approval, DecisionKind
from llm_do_temporal.messages.budget import GRANT_SPENDING_SIGNAL
from llm_do_temporal.policy.budget import (
    Action,
    Dimension,
    Ledger,
    Limits,
    Report,
    agreed_limit,
    opened,
    raised,
    settle,
    with_report,
)
from llm_do_temporal.workflows.runtime.activities import send_signal


class RunBudget:
    """Ledger of a run's spending. Without limits it gets no reports and sends no actions."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._unsent: list[Action] = []
        self.take_own: Callable[[Action], Awaitable[None]] | None = None
        """Takes the actions for the invocation in the run's own workflow, or for a batch as a whole: a workflow cannot
        signal itself. None: there is neither yet."""

    @property
    def is_idle(self) -> bool:
        """Whether no action is left to be sent."""
        return not self._unsent

    def open(self, owner: str, limits: Limits) -> None:
        """Set the limits of the whole run; `owner` is the id of the run's workflow, which holds them."""
        self.ledger = opened(self.ledger, "", owner, limits)

    def take(self, report: Report) -> None:
        """Enter an invocation's report of spending, and queue the actions that follow from it."""
        try:
            self.ledger, actions = settle(with_report(self.ledger, report))
        except ArithmeticError as error:
            # Anybody may send anything; an exception that left here would stop the whole run.
            workflow.logger.warning("a report of spending was ignored: %s", type(error).__name__)
            return
        self._unsent += actions

    def decide(self, approval: Approval) -> None:
        """Raise a limit where the decision is about a limit, and agrees to a higher one."""
        account, verdict = approval.request.account, approval.verdict
        if account is None or verdict is None or verdict.decision is DecisionKind.REJECT:
            return
        try:
            dimension = Dimension(approval.request.args.get("limit"))
            limit = agreed_limit(dimension, verdict.args, approval.request.args)
        except ValueError:
            return  # no question of ours: anybody may have sent it
        self.ledger, actions = settle(raised(self.ledger, account, dimension, limit))
        self._unsent += actions

    async def serve(self) -> None:
        """Send queued actions to their invocations, for ever."""
        while True:
            await workflow.wait_condition(lambda: bool(self._unsent))
            by_invocation: dict[str, list[Action]] = {}
            for action in self._unsent:
                by_invocation.setdefault(action.invocation, []).append(action)
            self._unsent = []
            sending = [
                asyncio.create_task(self._tell(invocation, actions)) for invocation, actions in by_invocation.items()
            ]
            await workflow.wait(sending)

    async def _tell(self, invocation: str, actions: list[Action]) -> None:
        """Send the actions to an invocation, each after the one before it: sent at once, they may arrive in another
        order."""
        for action in actions:
            if self.take_own is not None and invocation == workflow.info().workflow_id:
                await self.take_own(action)
                continue
            try:
                await send_signal(invocation, GRANT_SPENDING_SIGNAL, action)
            except FailureError:
                # It ended without a last report, so the amounts it held count as spent.
                holder = self.ledger.holders.get(invocation)
                if holder is not None:
                    self.take(Report(invocation=invocation, path=holder.path, ended="lost"))
                return
