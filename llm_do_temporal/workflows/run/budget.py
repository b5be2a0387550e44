"""The desk's side of limits: takes reports of spending, tells invocations what they may spend, raises limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.messages.approvals import Approval, DecisionKind
from llm_do_temporal.messages.budget import GRANT_SPENDING_SIGNAL
from llm_do_temporal.policy.budget.ledger import Action, Ledger, Report, opened, raised, settle, with_report
from llm_do_temporal.policy.budget.limits import Dimension, Limits, agreed_limit
from llm_do_temporal.workflows.runtime.activities import send_signal


class RunBudget:
    """Keeps a run's ledger. Without limits it is never asked, and tells nobody anything."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._untold: list[Action] = []
        self.take_own: Callable[[Action], Awaitable[None]] | None = None
        """What the run itself is told goes here: a workflow cannot signal itself."""

    def open(self, owner: str, limits: Limits) -> None:
        """Hold these limits for the whole run; `owner` is the workflow of the entry worker."""
        self.ledger = opened(self.ledger, "", owner, limits)

    def take(self, report: Report) -> None:
        """Take in what an invocation says, and see what follows from it."""
        try:
            self.ledger, actions = settle(with_report(self.ledger, report))
        except ArithmeticError as error:
            # Anybody may send anything; an exception that left here would stop the whole run.
            workflow.logger.warning("a report of spending was ignored: %s", type(error).__name__)
            return
        self._untold += actions

    def decide(self, approval: Approval) -> None:
        """Raise a limit where the decision is about one, and agrees."""
        account, verdict = approval.request.account, approval.verdict
        if account is None or verdict is None or verdict.decision is DecisionKind.REJECT:
            return
        try:
            dimension = Dimension(approval.request.args.get("limit"))
            limit = agreed_limit(dimension, verdict.args, approval.request.args)
        except ValueError:
            return  # no question of ours: anybody may have sent it
        self.ledger, actions = settle(raised(self.ledger, account, dimension, limit))
        self._untold += actions

    async def serve(self) -> None:
        """Tell invocations what there is to tell, for ever."""
        while True:
            await workflow.wait_condition(lambda: bool(self._untold))
            told: dict[str, list[Action]] = {}
            for action in self._untold:
                told.setdefault(action.invocation, []).append(action)
            self._untold = []
            sending = [asyncio.create_task(self._tell(invocation, actions)) for invocation, actions in told.items()]
            await workflow.wait(sending)

    async def _tell(self, invocation: str, actions: list[Action]) -> None:
        """One after the other: what is sent at once may arrive in another order."""
        for action in actions:
            if self.take_own is not None and invocation == workflow.info().workflow_id:
                await self.take_own(action)
                continue
            try:
                await send_signal(invocation, GRANT_SPENDING_SIGNAL, action)
            except FailureError:
                # It ended without a word, so what it held is taken for spent.
                holder = self.ledger.holders.get(invocation)
                if holder is not None:
                    self.take(Report(invocation=invocation, path=holder.path, ended="lost"))
                return
