"""Review of a layer: its changes are compared with the files, checked, put to people section by section, and made.

Owns the order of these steps, and the questions. What people accept is made as a whole or not at all; what they do not
accept goes back to the worker's model in words. Where the files have changed meanwhile, or what is left after a partial
acceptance does not pass the workshop's check, people are asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import ApprovalRefusal, DecisionRefused, EffectFailed, LlmDoError
from llm_do_temporal.extensions.review.messages import (
    CHECK_CHANGES,
    COMMIT_CHANGES,
    NAME,
    PREPARE_REVIEW,
    SETTLE_REVIEW,
    SUBMIT_TOOL,
    CheckChangesInput,
    CheckResult,
    CommitChangesInput,
    PreparedReview,
    PrepareReviewInput,
    ReviewSection,
    SectionAnswer,
    SettledReview,
    SettleReviewInput,
    ShownReview,
)
from llm_do_temporal.extensions.review.policy.review import CAPABILITIES, ReviewAnswer, Section
from llm_do_temporal.messages.approvals import DecisionKind, ExtensionQuestion, Verdict
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.messages.runs import InvokeWorkerInput, workflow_id_of
from llm_do_temporal.policy.approvals import Judgement, decide
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.workflows.runtime.activities import await_to_its_end, run_activity
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, GatedTool, PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.parts import InvocationPart, PartHost
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer

MOST_ROUNDS = 20
"""Largest number of times that people are asked within one review: something keeps changing the files."""
MOST_REFUSALS = 2
"""Times that a worker is told that policy refuses all of its changes, and goes on, before it has to end."""
CHECK_TIMEOUT = timedelta(minutes=12)
"""Longest attempt of a check, with all around it."""
COMMIT_TIMEOUT = timedelta(minutes=10)
_STRINGS = {"type": "array", "items": {"type": "string"}}
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "changes": {"type": "string", "description": "Digest of the changes that are shown; stays as it is."},
        "accept": {**_STRINGS, "description": "Paths to accept; `folder/` for all below it, `*` for all."},
        "hunks": {
            "type": "object",
            "additionalProperties": _STRINGS,
            "description": "Ids of hunks to accept, by path.",
        },
        "edits": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "description": "Blobs with the contents that files get instead, by path.",
        },
        "comments": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "line": {"type": ["integer", "null"], "minimum": 1},
                    "text": {"type": "string", "minLength": 1},
                },
                "required": ["path", "text"],
                "additionalProperties": False,
            },
        },
        "rest": {"enum": ["drop", "keep"], "description": "Whether changes that are not accepted go, or stay."},
    },
    "required": ["changes"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class _SubmittedChanges:
    """Subject of the question, in the place of a tool."""

    name: str = SUBMIT_TOOL
    schema: dict[str, Any] = field(default_factory=lambda: ANSWER_SCHEMA)


@dataclass(frozen=True)
class ReviewOutcome:
    """Outcome of a review."""

    made: int = 0
    """Number of paths that are changed in the files now."""
    words: str = ""
    """Rejected changes and comments, for the worker's model; empty where there are none."""


@dataclass
class _Round:
    """State of a review between two times that people are asked."""

    check: CheckResult | None = None
    """Outcome of the newest check."""
    proposed: dict[Section, ReviewAnswer] = field(default_factory=dict[Section, ReviewAnswer])
    """Choice that people are shown as theirs, where they have made one already."""
    reason: str = ""
    """Reason why they are asked again."""
    unusable: int = 0
    """Number of answers that could not be used: each makes the next question another one, which no remembered decision
    answers."""
    has_asked: bool = False
    """Whether a person was asked at all."""
    agreed_in: dict[Section, str] = field(default_factory=dict[Section, str])
    """Id by section of the approval that was given last: it came to nothing where the section is asked about again."""
    agreed: str = ""
    """Digest of the changes that were accepted, though they do not pass the check, and are shown so now."""


class LayerReview:
    """Reviews of one invocation, the root of a layer."""

    def __init__(
        self,
        invocation: InvokeWorkerInput,
        layer: WorkingLayer,
        desk: AsksDesk,
        accepted: Callable[[DelegateTool], None],
        number: int = 0,
    ) -> None:
        """`accepted` is called with every worker made with `worker_create` that people accept.

        `number` is the number of reviews so far.
        """
        self.number = number
        self._invocation = invocation
        self._layer = layer
        self._desk = desk
        self._accepted = accepted
        self._refused = 0

    async def run(self) -> ReviewOutcome:
        """Review what the layer has. In a run whose changes stay aside all is accepted, and nothing made.

        Raises ApprovalRefusal where policy refuses all of it for the third time, and ApprovalTimedOut.
        """
        try:
            async with self._layer.alone():
                return await self._reviewed()
        except FailureError as failure:
            raise explain(failure) from failure

    async def _reviewed(self) -> ReviewOutcome:
        state = _Round()
        prepared: PreparedReview | None = None
        if self._invocation.settings.aside:
            counted = await self._prepared()
            return ReviewOutcome(sum(section.counts.total for section in counted.sections))
        for _ in range(MOST_ROUNDS):
            if prepared is None:
                prepared = await self._prepared()
                if prepared.review is None or prepared.layer.manifest is None:
                    return ReviewOutcome()
                state.check = await self._checked(prepared.layer.manifest)
            answers = await self._answers(prepared, state)
            state.proposed = {one.section: one.answer for one in answers if one.answer is not None}
            settled = await self._settled(prepared, answers, state)
            if settled is None or await self._must_ask_again(prepared, settled, state):
                continue
            try:
                committed = await self._committed(settled, answers)
            except LlmDoError as error:
                if not state.has_asked:
                    raise
                # What people have accepted is not lost: they can mend what is in the way, and accept it again.
                state.reason = f"what was accepted could not be made: {error.message}"
                continue
            if committed is None or committed.committed:
                self._settle_layer(settled)
                return _outcome(committed, settled)
            why = f"the files have changed meanwhile: {'; '.join(committed.conflicts[:5])}"
            state = _Round(reason=why, agreed_in=state.agreed_in)
            prepared = None
        raise EffectFailed(
            f"the changes were not made: {MOST_ROUNDS} times people were asked, and each time something was in the way",
            next_step="Find out what keeps changing the files before you try again.",
        )

    async def _prepared(self) -> PreparedReview:
        layer = self._layer
        branch = self._invocation.settings.review_branch
        request = PrepareReviewInput(layer=layer.carried, created=layer.state.created, branch=branch)
        prepared = await run_activity(PREPARE_REVIEW, request, summary="prepare the review of changes")
        if prepared.sections:
            # The layer stays over what it found: a conflict is one until people have decided on it, also where this is
            # prepared again meanwhile.
            self.number += 1
        else:
            layer.put(prepared.layer)
        return prepared

    async def _checked(self, manifest: str) -> CheckResult | None:
        settings = self._invocation.settings
        if not settings.check_command:
            return None
        request = CheckChangesInput(manifest=manifest, command=settings.check_command, settings=settings.shell)
        summary = f"check changes: {settings.check_command}"
        return await run_activity(CHECK_CHANGES, request, summary=summary, timeout=CHECK_TIMEOUT)

    async def _must_ask_again(self, prepared: PreparedReview, settled: SettledReview, state: _Round) -> bool:
        """Check a part that was accepted, and return whether people must be shown that it does not pass."""
        if not settled.accepted_paths or settled.digest in (prepared.digest, state.agreed):
            return False
        check = await self._checked(settled.tried or settled.accepted)
        if check is None or check.passed:
            return False
        state.check, state.agreed = check, settled.digest
        state.reason = "the part that was accepted does not pass the check; accept it again to have it all the same"
        return True

    def _settle_layer(self, settled: SettledReview) -> None:
        for path, tool in self._layer.state.proposed.items():
            if path in settled.workers:
                self._accepted(tool)
        self._layer.settle(settled.kept, settled.workers)

    async def _settled(
        self, prepared: PreparedReview, answers: Sequence[SectionAnswer], state: _Round
    ) -> SettledReview | None:
        """Return what the answers come to; None: people must be asked again, as one of them cannot be used."""
        request = SettleReviewInput(review=_review_of(prepared), tree=self._invocation.tree, answers=tuple(answers))
        try:
            return await run_activity(SETTLE_REVIEW, request, summary="settle the review")
        except FailureError as failure:
            refused = explain(failure)
            if not isinstance(refused, DecisionRefused):
                raise refused from failure
            # An answer that cannot be used is nothing to be approved.
            state.proposed = {}
            state.unusable += 1
            state.reason = f"the answer could not be used: {refused.message}"
            return None

    async def _committed(self, settled: SettledReview, answers: Sequence[SectionAnswer]) -> CommittedChanges | None:
        """Make the accepted changes; None: there are none."""
        if not settled.accepted_paths:
            return None
        invocation, number = self._invocation, self.number
        execution = workflow.info().first_execution_run_id
        accepted = [answer for answer in answers if answer.answer is not None]
        request = CommitChangesInput(
            # After a conflict other changes are made under the same number, and a run that was deleted may be started
            # again under the same id.
            key=f"{workflow_id_of(invocation.run, invocation.path)}#{number}-{settled.digest}@{execution}",
            manifest=settled.accepted,
            digest=settled.digest,
            sections=tuple(answer.section for answer in accepted),
            workers=settled.workers,
            branch=invocation.settings.review_branch,
            message=f"{settled.accepted_paths} changes by {invocation.asker}",
            by=", ".join(dict.fromkeys(answer.by for answer in accepted if answer.by)),
        )
        summary = f"commit {settled.accepted_paths} changes"
        try:
            # Cancelled in the middle, nobody would ask for the rest of it.
            commit = run_activity(COMMIT_CHANGES, request, summary=summary, timeout=COMMIT_TIMEOUT)
            return await await_to_its_end(commit)
        except FailureError as failure:
            raise explain(failure) from failure

    async def _answers(self, prepared: PreparedReview, state: _Round) -> list[SectionAnswer]:
        """Ask about all sections at the same time. Raises ApprovalRefusal where policy refuses all too often."""
        judged = {one.section: self._judge(one.section) for one in prepared.sections}
        if all(judgement.kind == "block" for judgement in judged.values()):
            self._refused += 1
            if self._refused > MOST_REFUSALS:
                raise ApprovalRefusal(next(iter(judged.values())).reason)
        asking = [
            asyncio.create_task(self._answer(prepared, section, judged[section.section], state))
            for section in prepared.sections
        ]
        try:
            return [await answer for answer in asking]
        except BaseException:
            for answer in asking:
                answer.cancel()
            raise

    def _judge(self, section: Section) -> Judgement:
        settings = self._invocation.settings
        judgement = decide(settings.rules, settings.mode, SUBMIT_TOOL, [CapabilityUse(name=CAPABILITIES[section])])
        # An entry of `allow` is about a call, and none can describe what a review has.
        return judgement.model_copy(update={"kind": "block"}) if judgement.asks_nobody else judgement

    async def _answer(
        self, prepared: PreparedReview, section: ReviewSection, judged: Judgement, state: _Round
    ) -> SectionAnswer:
        proposed = state.proposed.get(section.section) or ReviewAnswer(changes=section.digest)
        if judged.kind == "block":
            return SectionAnswer(section=section.section, note=judged.reason)
        if judged.kind == "allow":
            return SectionAnswer(section=section.section, answer=proposed)
        reason = judged.reason
        while True:
            question = self._question(prepared, section, proposed, state)
            state.has_asked = True
            why = "; ".join(text for text in (state.reason, reason) if text)
            verdict = await self._desk.ask(_SubmittedChanges(), question, reason=why, terms=judged.terms)
            is_agreed = verdict.decision is not DecisionKind.REJECT
            state.agreed_in[section.section] = verdict.approval if is_agreed else ""
            try:
                return _section_answer(section, verdict)
            except DecisionRefused as refused:
                state.unusable += 1
                reason = f"the answer could not be used: {refused.message}"

    def _question(
        self, prepared: PreparedReview, section: ReviewSection, proposed: ReviewAnswer, state: _Round
    ) -> ToolQuestion:
        settings = self._invocation.settings
        shown = ShownReview(
            number=self.number,
            manifest=_review_of(prepared),
            section=section,
            check=state.check,
            branch=settings.review_branch,
        )
        payload: Mapping[str, Any] = section.counts.model_dump(mode="json")
        return ToolQuestion(
            (CapabilityUse(name=CAPABILITIES[section.section], payload=dict(payload)),),
            proposed.model_dump(mode="json"),
            _summary(section, self.number),
            circumstances=digest_of([state.unusable, shown.model_dump(mode="json")]),
            extension=ExtensionQuestion(name=NAME, shown=shown.model_dump(mode="json")),
            again=state.agreed_in.get(section.section, ""),
        )


def _review_of(prepared: PreparedReview) -> str:
    assert prepared.review is not None  # nothing is asked about no changes
    return prepared.review


def _outcome(committed: CommittedChanges | None, settled: SettledReview) -> ReviewOutcome:
    if committed is None:
        return ReviewOutcome(0, settled.words)
    words = [settled.words] if settled.words else []
    if committed.conflicts:
        listed = "\n".join(committed.conflicts)
        words.append(f"Accepted, but not made, because somebody else has changed it in that moment:\n{listed}")
    return ReviewOutcome(committed.paths, "\n\n".join(words))


def _section_answer(section: ReviewSection, verdict: Verdict) -> SectionAnswer:
    """Return the answer of a verdict. Raises DecisionRefused where its arguments are none."""
    if verdict.decision is DecisionKind.REJECT:
        return SectionAnswer(section=section.section, note=verdict.note, by=verdict.by)
    try:
        answer = ReviewAnswer.model_validate(verdict.args)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise DecisionRefused(f"{where}: {problem['msg']}") from error
    if answer.changes != section.digest:
        raise DecisionRefused("it is about other changes than those that are shown")
    return SectionAnswer(section=section.section, answer=answer, note=verdict.note, by=verdict.by)


def _summary(section: ReviewSection, number: int) -> str:
    counts = section.counts
    kinds = {
        "added": counts.added,
        "modified": counts.modified,
        "deleted": counts.deleted,
        "renamed": counts.renamed,
        "permissions": counts.mode,
    }
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    what = "" if section.section is Section.ORDINARY else f" of {section.section.value.replace('_', ' ')}"
    conflicts = f"; {len(section.conflicts)} changed by others meanwhile" if section.conflicts else ""
    changes = "1 change" if counts.total == 1 else f"{counts.total} changes"
    return f"review {number}: {changes}{what} ({told}{conflicts})"


@dataclass
class SubmitChanges:
    """`submit_changes`."""

    review: LayerReview
    name: str = SUBMIT_TOOL
    description: str = (
        "Let a person review all changes of files that were made so far. Until then they are yours alone; accepted "
        "ones are then made for good. You get those that were not accepted, with the reasons, and go on from there. "
        "What is left in the end is reviewed then, so call this only where you need the changes to be real before you "
        "go on."
    )
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Return the call: the review itself asks, section by section."""

        async def review() -> ToolOutcome:
            return ToolOutcome(told(await self.review.run()))

        return PreparedCall((), review)


def told(outcome: ReviewOutcome) -> str:
    """Return the outcome of a review in words for the worker's model."""
    if outcome.words:
        made = f"Accepted and made: {outcome.made} of the changed paths." if outcome.made else "Nothing was accepted."
        return f"{made}\n\n{outcome.words}"
    if not outcome.made:
        return "There are no changes to review."
    return f"Everything was accepted and is made: {outcome.made} changed path{'' if outcome.made == 1 else 's'}."


class ReviewedInvocation(InvocationPart):
    """Reviews of an invocation that works on a layer of its own."""

    needs_layer = True

    def __init__(self, invocation: InvokeWorkerInput, host: PartHost) -> None:
        self._invocation = invocation
        self._host = host

    @cached_property
    def _review(self) -> LayerReview:
        host = self._host
        assert host.layer is not None  # it is needed
        assert host.desk is not None
        assert host.offer is not None
        return LayerReview(self._invocation, host.layer, host.desk, host.offer, host.state or 0)

    def tools(self) -> Sequence[GatedTool]:
        """See InvocationPart."""
        return (SubmitChanges(self._review),)

    async def before_end(self) -> str:
        """See InvocationPart. The words are about changes that were not accepted."""
        outcome = await self._review.run()
        return told(outcome) if outcome.words else ""

    def state(self) -> int:
        """See InvocationPart. It is the number of reviews so far."""
        return self._review.number


def review_part(invocation: InvokeWorkerInput, host: PartHost) -> ReviewedInvocation | None:
    """Return the part of an invocation whose changes are reviewed; those of its callees are reviewed with its own."""
    is_reviewed = invocation.settings.review is not None or invocation.worker.review is not None
    return ReviewedInvocation(invocation, host) if is_reviewed and invocation.layer is None else None
