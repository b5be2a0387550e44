"""Decisions about questions: about many at once, and about kinds of calls that fit one.

Each is decided by itself, and the first decision wins. What is decided was frozen before: ids, each with the digest of
what was shown. A question that changed meanwhile, or that somebody else was faster at, stays as it is; the answer says
so, question by question.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.run_view import RUN_ENDS
from llm_do_temporal.errors import ConnectionFailed, DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind
from llm_do_temporal.policy.kinds.kind import CallKind, GrantedKind, KindGrant, kinds_of

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.views.run_view import ViewEvent

RUNS_AT_ONCE = 16
"""Runs that are decided about side by side; of one run one question after the other: it takes ten updates at a time."""
AGAIN_SECONDS = 5
"""Longest time that is waited for what becomes of a call that was agreed to."""
_LOOKS = ("preview ", "find ")
"""Beginnings of the lines of activities that look at files for a question."""
NOT_AS_SHOWN = "it asks about something else than what was shown"
"""Reason why a decision does not count whose digest is not that of the question."""


class FrozenQuestion(NamedTuple):
    """Question as it was shown to whoever decides."""

    run: str
    id: str
    digest: str
    """Digest of the question; empty if it has none."""


class Fate(StrEnum):
    """Outcome of a decision about one question."""

    TAKEN = "taken"
    AGREED = "agreed"
    """The vote counts, and the question waits for others."""
    SENT = "sent"
    """No worker service has answered yet; one that starts takes it up."""
    LATE = "late"
    CHANGED = "changed"
    """Asked about something else than what was shown."""
    GONE = "gone"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The connection was lost: it may have been taken."""
    AGAIN = "again"
    """Taken, and the call was not carried out: it is not what was shown, and is asked about again."""

    @property
    def counts(self) -> bool:
        """Whether the decision is taken, or on its way."""
        return self in (Fate.TAKEN, Fate.AGREED, Fate.SENT, Fate.AGAIN)


@dataclass(frozen=True)
class QuestionOutcome:
    """Answer about one of the questions."""

    question: FrozenQuestion
    fate: Fate
    words: str
    """The reason, or the people who were faster or must agree; for a decision that was taken empty."""
    until: datetime | None = None
    """Time at which a decision that was taken takes effect, and until which it can be taken back; None: at once."""
    is_compared: bool = False
    """Whether it lets a call happen that is compared with what was shown."""

    def as_json(self) -> dict[str, str]:
        """Return the outcome as the command line prints it."""
        question = self.question
        return {"run": question.run, "id": question.id, "outcome": self.fate.value, "details": self.words}


def seconds_until(effect: datetime) -> int:
    """Return the whole seconds for which a decision that takes effect then can be taken back; 0 once it has."""
    return max(0, ceil((effect - datetime.now(UTC)).total_seconds()))


async def decide_each(
    client: LlmDoClient,
    questions: Iterable[FrozenQuestion],
    decision: Decision,
    *,
    told: Callable[[QuestionOutcome], None] | None = None,
) -> list[QuestionOutcome]:
    """Decide each question by itself, and return the outcomes in the order of the questions.

    `decision` names no question; `told` hears of each outcome at once. Raises UsageError for a change of the arguments.
    """
    if decision.decision is DecisionKind.MODIFY:
        raise UsageError("calls are changed one by one: each has arguments of its own")
    asked = list(dict.fromkeys(questions))
    by_run: dict[str, list[FrozenQuestion]] = defaultdict(list)
    for question in asked:
        by_run[question.run].append(question)
    sender, turn = _Sender(client, decision), asyncio.Semaphore(RUNS_AT_ONCE)
    outcomes: dict[FrozenQuestion, QuestionOutcome] = {}

    async def decide_run(of_run: Sequence[FrozenQuestion]) -> None:
        async with turn:
            for question in of_run:
                outcomes[question] = await sender.decide(question)
                if told is not None:
                    told(outcomes[question])

    async with asyncio.TaskGroup() as group:
        for of_run in by_run.values():
            group.create_task(decide_run(of_run))
    return [outcomes[question] for question in asked]


async def asked_again(client: LlmDoClient, run: str, approvals: Iterable[str]) -> dict[str, Question]:
    """Return the questions that ask again about calls which were just agreed to, by the ids of these approvals.

    Waits until each call is carried out, or asked about again, and at most AGAIN_SECONDS. Raises ConnectionFailed.
    """
    watch = _Watch(set(approvals))
    with suppress(TimeoutError):
        events = client.follow(run).events()
        async with asyncio.timeout(AGAIN_SECONDS), translated(run), aclosing(events):
            async for event in events:
                watch.take(event)
                if watch.again and event.type in ("approval.requested", "desk.changed"):
                    asked = {one.id: one for one in await client.questions(run)}
                    watch.found = {one: asked[asked[one].again] for one in watch.again if asked[one].again}
                if watch.is_over:
                    break
    return watch.found


async def with_asked_again(client: LlmDoClient, outcomes: Sequence[QuestionOutcome]) -> list[QuestionOutcome]:
    """Return the outcomes, as AGAIN where the call is asked about again. Waits as `asked_again` does."""
    by_run: dict[str, list[str]] = defaultdict(list)
    for one in outcomes:
        if one.is_compared:
            by_run[one.question.run].append(one.question.id)
    turn = asyncio.Semaphore(RUNS_AT_ONCE)

    async def of_run(run: str) -> dict[str, Question]:
        async with turn:
            return await asked_again(client, run, by_run[run])

    found = dict(zip(by_run, await asyncio.gather(*map(of_run, by_run)), strict=True))
    outcome = list[QuestionOutcome]()
    for one in outcomes:
        again = found.get(one.question.run, {}).get(one.question.id)
        words = "" if again is None else f"{again.id}: {again.request.reason}"
        outcome.append(one if again is None else replace(one, fate=Fate.AGAIN, words=words))
    return outcome


def may_be_asked_again(approval: Approval) -> bool:
    """Return whether a decision lets a call happen that is compared with what was shown, or replaces it by another."""
    request, decision = approval.request, approval.verdict.decision if approval.verdict is not None else None
    if request.extension is not None:
        return False
    is_compared = bool(request.files) or request.tool == "shell"
    return decision is DecisionKind.MODIFY or (decision is DecisionKind.APPROVE and is_compared)


class _Watch:
    """Follower of calls that were agreed to, through the events of their run."""

    def __init__(self, approvals: set[str]) -> None:
        self.again: set[str] = set()
        """Approvals whose calls are asked about again."""
        self.found: dict[str, Question] = {}
        self._unseen = approvals
        self._open: dict[str, set[str]] = defaultdict(set)
        """Approvals whose calls go on, by the paths of their invocations."""
        self._done: dict[str, int] = defaultdict(int)
        """Effects that they have had since, by these paths."""

    @property
    def is_over(self) -> bool:
        """Whether it is known of all."""
        return not self._unseen and not any(self._open.values()) and len(self.found) == len(self.again)

    def take(self, event: ViewEvent) -> None:
        """Take in the next event."""
        going = self._open[event.path]
        if event.type == "approval.decided" and event.data["id"] in self._unseen:
            self._unseen.discard(event.data["id"])
            going.add(event.data["id"])
        elif event.type == "approval.requested" and event.data.get("again") in going:
            self.again.add(event.data["again"])
            going.discard(event.data["again"])
        elif event.type == "activity.completed" and going and not event.data["what"].startswith(_LOOKS):
            self._done[event.path] += 1
        # Effects of an invocation that go on side by side are not told apart, but they are counted.
        if event.type == "turn.started" or self._done[event.path] >= max(len(going), 1):
            going.clear()
            self._done[event.path] = 0
        if event.type in RUN_ENDS:
            self._unseen.clear()
            self._open.clear()


def counted(outcomes: Iterable[QuestionOutcome]) -> dict[Fate, int]:
    """Return the number of outcomes of each kind, in the order of the kinds; those that there are."""
    fates = [outcome.fate for outcome in outcomes]
    return {fate: fates.count(fate) for fate in Fate if fate in fates}


class _Sender:
    """Sends decisions. Waits for the answers of worker services as long as there may be one."""

    def __init__(self, client: LlmDoClient, decision: Decision) -> None:
        self._client = client
        self._decision = decision
        self._is_answered = False
        self._silent: set[str] = set()

    async def decide(self, question: FrozenQuestion) -> QuestionOutcome:
        """Decide one question."""
        decision = self._decision.model_copy(update={"id": question.id, "digest": question.digest or None})
        try:
            if question.run in self._silent or (self._silent and not self._is_answered):
                await self._client.decide(question.run, decision, is_sent_only=True)
                return QuestionOutcome(question, Fate.SENT, "")
            taken = await self._client.decide(question.run, decision)
        except DecisionRefused as refused:
            self._is_answered = True
            return await _why(self._client, question, refused)
        except UsageError as gone:
            return QuestionOutcome(question, Fate.GONE, gone.message)
        except ConnectionFailed as lost:
            return QuestionOutcome(question, Fate.UNKNOWN, lost.message)
        except LlmDoError as error:
            return QuestionOutcome(question, Fate.REFUSED, error.message)
        if taken is None:
            self._silent.add(question.run)
            return QuestionOutcome(question, Fate.SENT, "")
        self._is_answered = True
        if decision.decision is None:
            return QuestionOutcome(question, Fate.TAKEN, "")
        if taken.held is not None:
            return QuestionOutcome(question, Fate.TAKEN, "", taken.held.effective_at)
        if taken.verdict is not None:
            return QuestionOutcome(question, Fate.TAKEN, "", is_compared=may_be_asked_again(taken))
        agreed = f"{len(taken.votes)} of {taken.request.quorum} people have agreed"
        return QuestionOutcome(question, Fate.AGREED, agreed)


async def _why(client: LlmDoClient, question: FrozenQuestion, refused: DecisionRefused) -> QuestionOutcome:
    """Return what became of a question about which a decision was refused, as the run's history tells it."""
    try:
        found = next((one for one in await client.questions(question.run) if one.id == question.id), None)
    except LlmDoError:
        return QuestionOutcome(question, Fate.REFUSED, refused.message)
    if found is None:
        return QuestionOutcome(question, Fate.GONE, refused.message)
    if question.digest and found.request.digest != question.digest:
        return QuestionOutcome(question, Fate.CHANGED, NOT_AS_SHOWN)
    taken = found.verdict or (None if found.withdrawn else found.held)
    if taken is not None:
        told = f"{taken.decision.done} by {taken.by or 'somebody'} at {taken.at:%H:%M:%S} UTC"
        return QuestionOutcome(question, Fate.LATE, told)
    if found.withdrawn:
        return QuestionOutcome(question, Fate.GONE, "it needs no answer any more")
    if found.args != found.request.args:
        told = f"{found.votes[-1].by or 'somebody'} has changed the arguments"
        return QuestionOutcome(question, Fate.CHANGED, told)
    return QuestionOutcome(question, Fate.REFUSED, refused.message)


@dataclass(frozen=True)
class OfferedKind:
    """Kind that fits the call of a question."""

    kind: CallKind
    covered: tuple[Question, ...]
    """Other questions of the run that a grant of it would have answered, in order."""

    @property
    def refused(self) -> tuple[Question, ...]:
        """Questions among them that somebody rejected, or agreed to with other arguments only."""
        answered = ((one, one.verdict) for one in self.covered)
        return tuple(one for one, it in answered if it is not None and it.decision is not DecisionKind.APPROVE)

    @property
    def so_far(self) -> str:
        """Number of calls that it would have covered so far, in words."""
        if not self.covered:
            return "no other call so far"
        calls = f"{len(self.covered)} {'call' if len(self.covered) == 1 else 'calls'} so far"
        if not self.refused:
            return calls
        return f"{calls}, {len(self.refused)} of them rejected or changed"

    def as_json(self) -> dict[str, Any]:
        """The object that `approvals RUN ID --kinds --json` prints."""
        ids, refused = [one.id for one in self.covered], [one.id for one in self.refused]
        kind = self.kind.as_mapping()
        return {"kind": kind, "sentence": self.kind.sentence, "covered": ids, "rejected_or_changed": refused}


async def read_kinds(client: LlmDoClient, run: str, approval_id: str) -> list[OfferedKind]:
    """Return the kinds that the call of this approval is one of, with what each would have covered so far in the run.

    Raises UsageError where there is no such approval. Needs no worker service.
    """
    questions = await client.questions(run)
    asked = next((one for one in questions if one.id == approval_id), None)
    if asked is None:
        raise UsageError(f"run '{run}' has asked nothing that is called '{approval_id}'")
    return offered_kinds(asked, questions)


def offered_kinds(question: Question, questions: Sequence[Question]) -> list[OfferedKind]:
    """Return the kinds that fit the call of the question, the most specific first; `questions` are those of its run."""
    request = question.request
    # A call that was asked about again counts once.
    others = [one for one in questions if one.id != question.id and not one.again]
    offers: list[OfferedKind] = []
    for kind in kinds_of(request.call):
        granted = GrantedKind.of(KindGrant(kind=kind), request.call, request.whom)
        covered = (one for one in others if granted.covers(one.request.call, one.request.whom))
        offers.append(OfferedKind(kind, tuple(covered)))
    return offers
