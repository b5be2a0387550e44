"""The client of the run's desk: an invocation puts its questions there, and waits for the answers.

Owns the keys of the questions, which of them are open, and their fields on the wire. Used by `Invocation`, which
brings the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from temporalio import workflow

from llm_do_temporal.errors import ApprovalTimedOut
from llm_do_temporal.messages.approvals import (
    DeliverDecisionInput,
    DeliverVotesInput,
    RequestApprovalInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.runs import InvokeWorkerInput, workflow_id_of
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.approvals import Terms
from llm_do_temporal.workflows.invocation.model_fallback import FallbackChain
from llm_do_temporal.workflows.runtime.activities import current_call
from llm_do_temporal.workflows.runtime.children import DeskLink
from llm_do_temporal.workflows.runtime.spans import approval_span, is_generated, tell_verdict
from llm_do_temporal.workflows.tools.gated_tool import AskedTool, ToolQuestion


class DeskClient:
    """The questions of one invocation at the desk of its run. See AsksDesk."""

    def __init__(self, invocation: InvokeWorkerInput, models: FallbackChain, asked: int, link: DeskLink) -> None:
        """`asked` questions were put before the invocation's workflow was continued as new; `link` is the way to the
        desk."""
        self.asked = asked
        """Number of questions put to the desk; the key of the newest one."""
        self._invocation = invocation
        self._models = models
        self._link = link
        self._answers: dict[str, Verdict] = {}
        self._waiting: list[str] = []
        """Keys of the open questions."""
        self._abandoned: list[str] = []
        """Keys of open questions whose call was cancelled."""

    @property
    def is_waiting(self) -> bool:
        """Whether a question is open."""
        return bool(self._waiting)

    async def ask(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None = None,
        account: str | None = None,
    ) -> Verdict:
        """Put a question to the desk and park until it is answered, however long that takes. See AsksDesk."""
        request = self._request(tool, question, reason=reason, diff=diff, account=account, terms=terms)
        key = request.key
        self._waiting.append(key)
        self._link.show(f"Waiting for approval: {question.summary}")
        with approval_span(request) as span:
            try:
                await self._link.ask(request)
                await workflow.wait_condition(lambda: key in self._answers)
            except asyncio.CancelledError:
                self._abandoned.append(key)
                raise
            self._waiting.remove(key)
            self._link.show("")
            verdict = self._answers.pop(key)
            tell_verdict(span, verdict)
            if verdict.door == "timer" and terms.on_timeout == "fail":
                raise ApprovalTimedOut(
                    f"{verdict.note}: {request.summary[:SUMMARY_CHARS]}",
                    next_step="Start it again when somebody is there, or raise `timeout` under `approvals` in "
                    "workshop.yaml.",
                )
            return verdict

    def _request(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None,
        account: str | None,
    ) -> RequestApprovalInput:
        invocation = self._invocation
        self.asked += 1
        return RequestApprovalInput(
            invocation=workflow_id_of(invocation.run, invocation.path),
            execution=workflow.info().first_execution_run_id,
            key=str(self.asked),
            worker=invocation.asker,
            path=invocation.path,
            tool=tool.name,
            args=question.args,
            args_schema=tool.schema if question.changeable else None,
            tree=invocation.tree,
            capabilities=question.uses,
            summary=question.summary,
            attachments=question.attachments,
            files=question.files,
            circumstances=question.circumstances,
            surroundings=question.surroundings,
            allowed=question.allowed,
            again=question.again,
            model=self._models.shown,
            generated=is_generated(invocation.worker),
            item=invocation.item,
            extension=question.extension,
            content_key=current_call(),
            reason=reason,
            diff=diff,
            account=account,
            approvers=terms.approvers or (),
            quorum=terms.quorum,
            forbid_own=terms.forbid_own,
            deadline=_in(terms.timeout),
            on_timeout=terms.on_timeout,
            remind_at=_in(terms.remind_after),
            timeout_seconds=terms.timeout,
        )

    def report(self, tool: AskedTool, error: Exception) -> None:
        """Log that a tool broke in a way that no error of ours describes. See AsksDesk."""
        workflow.logger.error("tool %s broke", tool.name, exc_info=error)

    def take_decision(self, delivery: DeliverDecisionInput) -> None:
        """Take the desk's answer; an answer to a question that is not open is dropped."""
        if delivery.key in self._waiting:
            self._answers[delivery.key] = delivery.verdict.model_copy(update={"approval": delivery.id})

    def show_votes(self, delivery: DeliverVotesInput) -> None:
        """Show how many people have agreed, where several must."""
        if delivery.key in self._waiting:
            self._link.show(f"Waiting for approval; agreed so far: {len(delivery.votes)}")

    async def withdraw_abandoned(self) -> None:
        """Take back the questions of calls that were cancelled while the invocation goes on. See AsksDesk."""
        abandoned, self._abandoned = self._abandoned, []
        await self._withdraw(abandoned)

    async def withdraw_all(self) -> None:
        """Tell the desk that questions left open by a failure or a cancellation need no answer any more."""
        await self._withdraw(self._waiting)

    async def _withdraw(self, keys: Sequence[str]) -> None:
        if keys:
            known = self._invocation
            withdrawn = WithdrawApprovalsInput(invocation=workflow_id_of(known.run, known.path), keys=tuple(keys))
            self._waiting = [key for key in self._waiting if key not in withdrawn.keys]
            await self._link.withdraw(withdrawn)


def _in(seconds: int | None) -> datetime | None:
    return None if seconds is None else workflow.now() + timedelta(seconds=seconds)
