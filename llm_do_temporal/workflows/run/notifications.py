"""The desk's side of telling people: which targets are told what, in which order, and for how long it is tried.

Owns a line for each target, which is told one thing after the other. Used by `LlmDoRun`. Nothing here fails a run,
keeps a decision waiting, or does anything at all where the workshop has no `notify:`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import NOTIFY
from llm_do_temporal.messages.approvals import Approval, DeskState
from llm_do_temporal.messages.notifications import Notification, NotifyInput
from llm_do_temporal.messages.sizes import NOTIFIED_CONTENT_CHARS, NOTIFIED_SUMMARY_CHARS, SUMMARY_CHARS
from llm_do_temporal.policy.approvals import canonical
from llm_do_temporal.policy.notifications import NotifyEvent, NotifySettings, NotifyTarget, link_to
from llm_do_temporal.workflows.runtime.activities import HEARTBEAT_TIMEOUT
from llm_do_temporal.workflows.runtime.failures import explain

LIFETIME = timedelta(hours=1)
"""How long after it happened something is still told."""
FAREWELL = timedelta(seconds=10)
"""How long the end of a run waits until everybody has been told."""
MAX_WAITING = 500
"""Of what one target is still to be told; what is older is dropped."""
_ATTEMPT = timedelta(seconds=20)
_PATIENT = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=2))
_BRIEF = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


class Notifier:
    """Tells the targets of a run what happens at its desk."""

    def __init__(self) -> None:
        self._worker = ""
        self._ui_url: str | None = None
        self._lines: list[_Line] = []
        self._seen: dict[str, set[NotifyEvent]] = {}
        """What has been told of each question, by its id."""

    def open(self, settings: NotifySettings, worker: str) -> None:
        """Tell these targets from now on; `worker` is the run's entry worker."""
        self._worker, self._ui_url = worker, settings.ui_url
        self._lines = [_Line(target) for target in settings.targets]

    def see(self, state: DeskState) -> None:
        """Tell what is new at the desk: questions that were asked, reminders of them, and decisions."""
        if not self._lines:
            return
        for approval in state.approvals:
            # Nobody was asked where a remembered decision answered, or where the question was taken back at once.
            granted = approval.verdict is not None and approval.verdict.door == "grant"
            if (granted or approval.withdrawn) and approval.id not in self._seen:
                continue
            self._tell_once(NotifyEvent.APPROVAL_REQUESTED, approval, approval.asked_at)
            if approval.reminded_at is not None:
                self._tell_once(NotifyEvent.APPROVAL_REMINDER, approval, approval.reminded_at)
            if approval.verdict is not None:
                self._tell_once(NotifyEvent.APPROVAL_DECIDED, approval, approval.verdict.at)

    async def finish(self, state: DeskState, *, output: Any = None, error: LlmDoError | None = None) -> None:
        """Tell how the run ended, and wait a moment until everybody has been told everything."""
        if not self._lines:
            return
        self.see(state)
        now = workflow.now()
        if error is None:
            told = self._notification(NotifyEvent.RUN_COMPLETED, now, {"output": output})
        else:
            told = self._notification(NotifyEvent.RUN_FAILED, now, {"message": str(error)})
            told = told.model_copy(update={"error": error.code})
        for line in self._lines:
            line.add_last(told)
        try:
            await self.settle()
        except asyncio.CancelledError:
            # Whoever cancels a run that is done gets its result; anything else has to stop here.
            if workflow.cancellation_reason() is None:
                raise

    async def settle(self) -> None:
        """Wait a moment until everybody has been told everything; what is left then is not told."""
        if all(line.is_done for line in self._lines):
            return
        try:
            await workflow.wait_condition(lambda: all(line.is_done for line in self._lines), timeout=FAREWELL)
        except TimeoutError:
            workflow.logger.warning("the run goes on before everybody was told what happened in it")

    def _tell_once(self, event: NotifyEvent, approval: Approval, at: datetime) -> None:
        told = self._seen.setdefault(approval.id, set())
        if event in told:
            return
        told.add(event)
        notification = self._about_question(event, approval, at)
        for line in self._lines:
            line.add(notification)

    def _about_question(self, event: NotifyEvent, approval: Approval, at: datetime) -> Notification:
        request, verdict = approval.request, approval.verdict
        more: dict[str, Any] = {
            "worker": request.worker,
            "path": request.path,
            "tool": request.tool,
            "digest": request.digest or None,
            "summary": request.summary[:NOTIFIED_SUMMARY_CHARS],
            "approvers": request.approvers,
            "asked_at": approval.asked_at,
            "deadline": request.deadline,
        }
        args = request.args
        if event is NotifyEvent.APPROVAL_DECIDED and verdict is not None:
            more |= {"decision": verdict.decision, "by": verdict.by, "note": verdict.note, "door": verdict.door}
            args = verdict.args
        return self._notification(event, at, {"args": args}, approval.id).model_copy(update=more)

    def _notification(
        self, event: NotifyEvent, at: datetime, content: dict[str, Any], approval: str | None = None
    ) -> Notification:
        info = workflow.info()
        return Notification(
            id="-".join(filter(None, (info.first_execution_run_id, event, approval))),
            event=event,
            at=at,
            run=info.workflow_id,
            worker=self._worker,
            link=link_to(self._ui_url, info.workflow_id, approval),
            approval=approval,
            content=_fitting(content),
        )


class _Line:
    """What one target is still to be told: one thing after the other, so that they arrive in order."""

    def __init__(self, target: NotifyTarget) -> None:
        self._target = target
        self._waiting: list[Notification] = []
        self._teller: asyncio.Task[None] | None = None
        self._farewell: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to tell."""
        return all(task is None or task.done() for task in (self._teller, self._farewell))

    def add(self, told: Notification) -> None:
        """Tell this after what came before it."""
        if told.event not in self._target.events:
            return
        self._waiting = [*self._waiting, told][-MAX_WAITING:]
        if self._teller is None or self._teller.done():
            self._teller = asyncio.create_task(self._tell_all())

    def add_last(self, told: Notification) -> None:
        """Tell this beside everything else, and do not try for long."""
        if told.event in self._target.events:
            self._farewell = asyncio.create_task(self._tell(told, FAREWELL, _BRIEF))

    async def _tell_all(self) -> None:
        while self._waiting:
            told = self._waiting.pop(0)
            left = told.at + LIFETIME - workflow.now()
            if left >= timedelta(seconds=1):
                await self._tell(told, left, _PATIENT)

    async def _tell(self, told: Notification, within: timedelta, retries: RetryPolicy) -> None:
        if not self._target.content:
            told = told.model_copy(update={"content": None})
        try:
            await workflow.execute_activity(
                NOTIFY.name,
                NotifyInput(target=self._target, notification=told),
                schedule_to_close_timeout=within,
                start_to_close_timeout=min(_ATTEMPT, within),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=retries,
                summary=" ".join(filter(None, ("tell", self._target.name, "of", told.event, told.approval)))[
                    :SUMMARY_CHARS
                ],
            )
        except FailureError as error:
            workflow.logger.warning("%s was not told of %s: %s", self._target.name, told.event, explain(error))


def _fitting(content: dict[str, Any]) -> dict[str, Any]:
    """What may leave the house, or how much it would have been."""
    size = len(canonical(content))
    return content if size <= NOTIFIED_CONTENT_CHARS else {"omitted_chars": size}
