"""Notifications of people by the desk: their targets, their order, and the time for which each is tried.

Owns a line for each target, which gets its notifications in order. Used by `LlmDoRun`. No notification fails a run or
keeps a decision waiting, and none is made where the workshop has no `notify:`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import NOTIFY, Notification, NotifyInput
from llm_do_temporal.messages.approvals import Approval, DeskState
from llm_do_temporal.messages.runs import ItemCounts
from llm_do_temporal.messages.sizes import NOTIFIED_CONTENT_CHARS, NOTIFIED_SUMMARY_CHARS, SUMMARY_CHARS
from llm_do_temporal.policy.notifications import NotifyEvent, NotifySettings, NotifyTarget, link_to
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.workflows.runtime.activities import HEARTBEAT_TIMEOUT
from llm_do_temporal.workflows.runtime.failures import explain

LIFETIME = timedelta(hours=1)
"""Time after an event for which its notification is tried."""
FAREWELL = timedelta(seconds=10)
"""Longest time that the end of a run waits for its notifications."""
MAX_WAITING = 500
"""Largest number of notifications that wait for one target; older ones are dropped."""
_ATTEMPT = timedelta(seconds=20)
_PATIENT = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=2))
_BRIEF = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


class Notifier:
    """Notifies the targets of a run of events at its desk."""

    def __init__(self) -> None:
        self._worker = ""
        self._ui_url: str | None = None
        self._lines: list[_Line] = []
        self._seen: dict[str, set[NotifyEvent]] = {}
        """Events of each question that were queued for the targets, by the question's id."""

    def open(self, settings: NotifySettings, worker: str) -> None:
        """Notify these targets from now on; `worker` is the run's entry worker."""
        self._worker, self._ui_url = worker, settings.ui_url
        self._lines = [_Line(target) for target in settings.targets]

    def see(self, state: DeskState) -> None:
        """Notify of all news at the desk: new questions, reminders of them, and decisions."""
        if not self._lines:
            return
        for approval in state.approvals:
            # No person was asked where a grant, an entry or a script answered, or the question was taken back at once.
            granted = approval.verdict is not None and approval.verdict.door in ("grant", "rule", "script")
            if (granted or approval.withdrawn) and approval.id not in self._seen:
                continue
            self._tell_once(NotifyEvent.APPROVAL_REQUESTED, approval, approval.asked_at)
            if approval.reminded_at is not None:
                self._tell_once(NotifyEvent.APPROVAL_REMINDER, approval, approval.reminded_at)
            if approval.verdict is not None:
                self._tell_once(NotifyEvent.APPROVAL_DECIDED, approval, approval.verdict.at)

    async def finish(
        self,
        state: DeskState,
        *,
        output: Any = None,
        items: ItemCounts | None = None,
        error: LlmDoError | None = None,
    ) -> None:
        """Notify of the run's end, and wait up to FAREWELL for all notifications.

        `error` is the error that ended the run; None: it has completed with `output`, and a batch with `items`.
        """
        if not self._lines:
            return
        self.see(state)
        now = workflow.now()
        if error is None:
            notification = self._notification(NotifyEvent.RUN_COMPLETED, now, {"output": output})
            notification = notification.model_copy(update={"items": items})
        else:
            notification = self._notification(NotifyEvent.RUN_FAILED, now, {"message": str(error)})
            notification = notification.model_copy(update={"error": error.code})
        for line in self._lines:
            line.add_last(notification)
        try:
            await self.settle()
        except asyncio.CancelledError:
            # A person who cancels a run that is done gets its result; any other cancellation has to stop here.
            if workflow.cancellation_reason() is None:
                raise

    async def settle(self) -> None:
        """Wait up to FAREWELL for all notifications; those still left then are not sent."""
        if all(line.is_done for line in self._lines):
            return
        try:
            await workflow.wait_condition(lambda: all(line.is_done for line in self._lines), timeout=FAREWELL)
        except TimeoutError:
            workflow.logger.warning("the run goes on before everybody was told what happened in it")

    def _tell_once(self, event: NotifyEvent, approval: Approval, at: datetime) -> None:
        events = self._seen.setdefault(approval.id, set())
        if event in events:
            return
        events.add(event)
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
    """Notifications that wait for one target, each sent after the one before it so that they arrive in order."""

    def __init__(self, target: NotifyTarget) -> None:
        self._target = target
        self._waiting: list[Notification] = []
        self._teller: asyncio.Task[None] | None = None
        self._farewell: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether no notification waits or is being sent."""
        return all(task is None or task.done() for task in (self._teller, self._farewell))

    def add(self, notification: Notification) -> None:
        """Queue a notification behind the earlier ones."""
        if notification.event not in self._target.events:
            return
        self._waiting = [*self._waiting, notification][-MAX_WAITING:]
        if self._teller is None or self._teller.done():
            self._teller = asyncio.create_task(self._tell_all())

    def add_last(self, notification: Notification) -> None:
        """Send the run's last notification beside those that wait, with few attempts."""
        wanted = {notification.event}
        if notification.items is not None and notification.items.failed:
            wanted.add(NotifyEvent.RUN_FAILED)
        if wanted.intersection(self._target.events):
            self._farewell = asyncio.create_task(self._tell(notification, FAREWELL, _BRIEF))

    async def _tell_all(self) -> None:
        while self._waiting:
            notification = self._waiting.pop(0)
            left = notification.at + LIFETIME - workflow.now()
            if left >= timedelta(seconds=1):
                await self._tell(notification, left, _PATIENT)

    async def _tell(self, notification: Notification, within: timedelta, retries: RetryPolicy) -> None:
        if not self._target.content:
            notification = notification.model_copy(update={"content": None})
        try:
            await workflow.execute_activity(
                NOTIFY.name,
                NotifyInput(target=self._target, notification=notification),
                schedule_to_close_timeout=within,
                start_to_close_timeout=min(_ATTEMPT, within),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=retries,
                summary=" ".join(
                    filter(None, ("tell", self._target.name, "of", notification.event, notification.approval))
                )[:SUMMARY_CHARS],
            )
        except FailureError as error:
            workflow.logger.warning("%s was not told of %s: %s", self._target.name, notification.event, explain(error))


def _fitting(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content, or where it is more than MAX_CONTENT_CHARS, its size in the key `omitted_chars`."""
    size = len(canonical(content))
    return content if size <= NOTIFIED_CONTENT_CHARS else {"omitted_chars": size}
