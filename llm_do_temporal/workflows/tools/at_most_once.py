"""Effects that must not happen twice: a single attempt, and where its outcome is unknown, a person decides.

Used by every tool whose effect is not idempotent: shell commands, Python tools, calls of MCP servers. A tool's
`PreparedCall.effect` awaits

    await run_at_most_once(
        RUN_COMMAND, request, summary="shell git push", timeout=timedelta(seconds=90),
        ask=ask_whether_to_repeat(desk, settings, tool, question, what="git push"),
    )

in the place of `run_activity`. The activity is attempted once, with heartbeats, which the worker service sends for it.
An error that the activity itself raises is a known outcome and leaves as it is, except OutcomeUnknown. After that
error, or when the worker service is lost, the effect may have happened, wholly, in part or not at all: the person is
shown the call again and answers, by the means of every other approval, approve (run it again), reject (go on without;
the model is told that the outcome is unknown) or cancels the run. In the modes that ask no person, nothing is run
again. A remembered approval of the call itself is no answer to this question, which has a capability of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.workflow import ActivityCancellationType

from llm_do_temporal.errors import EffectFailed, OutcomeUnknown
from llm_do_temporal.messages.activities import ActivityRef, Request, Result
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.base import TIME_IS_UP
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.messages.sizes import SUMMARY_CHARS
from llm_do_temporal.policy.approvals import Mode, asking, terms_of
from llm_do_temporal.policy.values import REPEAT
from llm_do_temporal.workflows.runtime.activities import (
    HEARTBEAT_TIMEOUT,
    could_not_fetch,
    lacks_blobs,
    marked,
    run_until_started,
)
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, GatedTool, ToolQuestion

Ask = Callable[[str], Awaitable[Verdict | None]]
"""Asks a person whether an effect that may have happened is to be run again; the argument says why that is unknown.

Returns the decision; None: no person can be asked.
"""

_REASON = "{why} while this ran, so it may have happened: approve to run it again, reject to go on"
_SHUT_DOWN = "WorkerShutdown"
LONGEST_WAIT = timedelta(days=365)
"""Longest attempt of a tool that may wait for a person; the time of the tool itself is limited by its worker
service."""


async def run_at_most_once(
    activity: ActivityRef[Request, Result], request: Request, *, summary: str, timeout: timedelta, ask: Ask
) -> Result:
    """Run an activity, at most once for each time that a person has agreed to it, and return its result.

    `timeout` is for one attempt, from its start. Raises EffectFailed when the outcome stays unknown, and
    Temporal's failure when the activity itself failed. A cancellation waits until the activity has stopped.
    """

    request = marked(request)

    def start() -> workflow.ActivityHandle[Result]:
        return workflow.start_activity(
            activity.name,
            request,
            result_type=activity.result,
            start_to_close_timeout=timeout,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary[:SUMMARY_CHARS],
        )

    while True:
        try:
            return await run_until_started(start)
        except ActivityError as error:
            if not is_unknown(error):
                raise
            why = why_unknown(error)
        answer = await ask(why)
        if answer is None or answer.decision is DecisionKind.REJECT:
            raise unknown_outcome(summary, why, answer)


def ask_whether_to_repeat(
    desk: AsksDesk, settings: RunSettings, tool: GatedTool, question: ToolQuestion, *, what: str
) -> Ask:
    """Return the `ask` of `run_at_most_once`, about a call of `tool` that was judged by `question`.

    `what` names in a few words the effect that may have happened; it is text of a model's and shown as such. The people
    who had to be asked about the call have to be asked about this.
    """
    uses = tuple(use.model_copy(update={"name": REPEAT, "asks": None}) for use in question.uses)
    again = replace(question, uses=uses, summary=f"may have happened: {what}", changeable=False)

    terms = terms_of(settings.rules, [*asking(settings.rules, question.uses), REPEAT])

    async def ask(why: str) -> Verdict | None:
        if settings.mode is not Mode.INTERACTIVE or not terms.can_be_met:
            return None
        return await desk.ask(tool, again, diff=None, reason=_REASON.format(why=why), terms=terms)

    return ask


def is_unknown(error: ActivityError) -> bool:
    """Whether it is unknown if the effect of a failed activity happened.

    Its worker service was lost, or could not keep, or find, a value that was too large for the history; or the server
    that it called gave no usable answer.
    """
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type != _SHUT_DOWN:
        return cause.type in (TIME_IS_UP, OutcomeUnknown.__name__) or (
            lacks_blobs(error) and not could_not_fetch(error)
        )
    return is_lost(error)


def is_lost(error: ActivityError) -> bool:
    """Whether an activity failed because its worker service was lost, or told to stop."""
    cause = error.cause
    return isinstance(cause, TemporalTimeoutError) or (isinstance(cause, ApplicationError) and cause.type == _SHUT_DOWN)


def why_unknown(error: ActivityError) -> str:
    """Return the reason why the outcome of a failed activity is unknown, as the begin of a sentence."""
    cause = error.cause
    if lacks_blobs(error):
        return "the blob store could not be used"
    if isinstance(cause, ApplicationError) and cause.type == TIME_IS_UP:
        return "the time was up"
    if isinstance(cause, ApplicationError) and cause.type == OutcomeUnknown.__name__:
        return cause.message
    if isinstance(cause, TemporalTimeoutError) and cause.type is TimeoutType.START_TO_CLOSE:
        return "the time was up"
    return "the worker service was lost"


def unknown_outcome(summary: str, why: str, answer: Verdict | None) -> EffectFailed:
    """Return the error for the model about an effect that may have happened and is not run again.

    `answer` is the decision about it; None: nobody could be asked.
    """
    text = f"the outcome of '{summary}' is unknown: {why} while it ran. It was not run again"
    if answer is None:
        return EffectFailed(
            f"{text}, because nobody can be asked about it here. Find out what happened before you go on."
        )
    note = f": {answer.note}" if answer.note else ""
    decided = answer.note if answer.door == "timer" else f"{answer.by or 'a person'} decided so{note}"
    return EffectFailed(f"{text} ({decided}). Find out what happened before you go on.")
