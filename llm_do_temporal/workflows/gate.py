"""The gate that every tool call passes: check, judge, perhaps ask a person, then carry out.

A tool says what a call is about to do (`prepare`) and how to do it (`Prepared.effect`). The gate alone
decides whether it happens. Nothing asks a person before everything a machine can refuse has been
checked, and changed arguments are prepared and judged again from the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from pydantic_ai.exceptions import ModelRetry, ToolFailed
from temporalio.exceptions import FailureError
from temporalio.workflow import NondeterminismError, ReadOnlyContextError

from llm_do_temporal.activities.answers import MAX_CALL_BYTES, OVERSIZED
from llm_do_temporal.errors import ApprovalRefusal, ApprovalTimedOut, LlmDoError, Refusal, RunAborted
from llm_do_temporal.messages import DecisionKind, RunSettings, Usage
from llm_do_temporal.messages import Verdict as DecisionTaken
from llm_do_temporal.policy.approvals import CapabilityUse, Terms, Verdict, canonical, decide
from llm_do_temporal.policy.attachments import Attachment
from llm_do_temporal.schemas import Steps, schema_problems
from llm_do_temporal.workflows.failures import explain
from llm_do_temporal.workflows.run_spans import tell_outcome, tool_span

T = TypeVar("T")
ENDS_INVOCATION = (RunAborted, ApprovalTimedOut, NondeterminismError, ReadOnlyContextError)
"""What a call raises that no model and no function is told of."""


@dataclass(frozen=True)
class Question:
    """One thing a person may have to be asked about a call."""

    uses: tuple[CapabilityUse, ...]
    args: dict[str, Any]
    """What is shown, and what a grant remembers."""
    summary: str
    changeable: bool = True
    """Whether `args` are the call's own arguments, which the person may change."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over, for the person to look at."""

    @property
    def identity(self) -> str:
        """Names the question among those of one call; other files make it another question."""
        files = [one.sha256 for one in self.attachments]
        return canonical([[use.name for use in self.uses], self.args, *([files] if files else [])])


@dataclass(frozen=True)
class Outcome:
    """What a call gave, and what it spent below itself (delegations)."""

    value: Any = None
    usage: Usage = field(default_factory=Usage)
    failure: LlmDoError | None = None
    """For a call that failed after it had spent something: what the model is told instead of the value."""
    note: str = ""
    """What people changed in the call, or in those it made: the model is told beside the result."""


@dataclass(frozen=True)
class Prepared:
    """A call that passed every check a machine can make."""

    questions: tuple[Question, ...]
    effect: Callable[[], Awaitable[Outcome]]
    preview: Callable[[], Awaitable[str]] | None = None
    """Makes the diff that is shown with the question; fails where the effect would."""
    then: Callable[[], Awaitable[Prepared]] | None = None
    """Does what may only be done once the questions are answered, and says what is left to ask and to do."""


class GatedTool(Protocol):
    """A tool as the gate sees it."""

    name: str
    description: str
    schema: dict[str, Any]

    async def prepare(self, args: dict[str, Any]) -> Prepared:
        """Check the call and say what it would do. Raises LlmDoError."""
        ...


class AsksDesk(Protocol):
    """Whoever can put a question to the desk and wait for the answer."""

    async def ask(
        self, tool: GatedTool, question: Question, *, diff: str | None, reason: str, terms: Terms
    ) -> DecisionTaken:
        """The decision, however long it takes within these terms. Raises ApprovalTimedOut."""
        ...

    def report(self, tool: GatedTool, error: Exception) -> None:
        """Tell whoever runs the service that a tool broke."""
        ...


class Gate:
    """Carries one invocation's tool calls from judgement to effect."""

    def __init__(
        self, settings: RunSettings, desk: AsksDesk, begin: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`begin` is awaited before each effect: it returns when the limits allow one more call."""
        self._begin = begin
        self._settings = settings
        self._desk = desk
        self._steps = Steps()

    def begin_answer(self) -> None:
        """Let the calls of one more answer be checked: together they may take what one validation may.

        They are begun in one task of the workflow, and each by itself could take all the time that a task has.
        """
        self._steps = Steps()

    async def call(self, tool: GatedTool, args: dict[str, Any], call_id: str | None = None) -> Outcome:
        """The tool's result as the model is told it. Raises what `carry_out` raises."""
        return _with_note(await self.carry_out(tool, args, call_id, self._steps))

    async def carry_out(
        self, tool: GatedTool, args: dict[str, Any], call_id: str | None = None, steps: Steps | None = None
    ) -> Outcome:
        """The tool's result, for whoever called it. `steps` may be spent on checking it; None: as on one call.

        Raises ToolFailed with a text for the model, ModelRetry, or one of ENDS_INVOCATION.

        Nothing else leaves but cancellation and what Temporal has to see: any other exception would fail the
        workflow's task, which is then tried for ever.
        """
        with tool_span(tool.name, args, call_id) as span:
            outcome = await self._carry_out(tool, args, steps)
            tell_outcome(span, outcome.value, outcome.failure)
        return outcome

    async def _carry_out(self, tool: GatedTool, args: dict[str, Any], steps: Steps | None) -> Outcome:
        try:
            _check_arguments(tool, args, steps)
            prepared, change = await self._cleared(tool, args)
            if self._begin is not None:
                await self._begin()
            outcome = await _explained(prepared.effect())
            return outcome if change is None else replace(outcome, note=_told_of(outcome, change))
        except (*ENDS_INVOCATION, ModelRetry):
            raise
        except Refusal as refusal:
            if self._settings.on_refusal == "abort":
                raise RunAborted(str(refusal)) from refusal
            raise ToolFailed(for_model(refusal)) from refusal
        except LlmDoError as error:
            raise ToolFailed(for_model(error)) from error
        except Exception as error:
            self._desk.report(tool, error)
            raise ToolFailed(f"{tool.name} failed unexpectedly: {type(error).__name__}: {error}"[:500]) from error

    async def _cleared(self, tool: GatedTool, args: dict[str, Any]) -> tuple[Prepared, DecisionTaken | None]:
        """The call, prepared and allowed, and the decision that put other arguments in its place, if one did."""
        change: DecisionTaken | None = None
        prepared = await self._prepare(tool, args)
        answered: set[str] = set()
        while True:
            question = self._open_question(tool, prepared, answered)
            if question is None and prepared.then is not None:
                prepared = await _explained(prepared.then())
                continue
            if question is None:
                return prepared, change
            diff = await _explained(prepared.preview()) if prepared.preview else None
            judged = self._judge(tool, question)
            asking = self._desk.ask(tool, question, diff=diff, reason=judged.reason, terms=judged.terms)
            decision = await _explained(asking)
            answered.add(question.identity)
            if decision.decision is DecisionKind.REJECT:
                raise ApprovalRefusal(_rejection(decision))
            if decision.decision is DecisionKind.MODIFY:
                problems = schema_problems(tool.schema, decision.args)
                if problems:
                    raise ApprovalRefusal(f"the changed arguments are not valid: {'; '.join(problems[:5])}")
                change = decision
                prepared = await self._prepare(tool, decision.args)
                # Whoever changed the call has seen what it will do: its own question is answered, where that person
                # may answer it.
                own = [one for one in prepared.questions if one.changeable]
                answered |= {one.identity for one in own if _may_answer(judged.terms, self._judge(tool, one).terms)}

    async def _prepare(self, tool: GatedTool, args: dict[str, Any]) -> Prepared:
        return await _explained(tool.prepare(args))

    def _open_question(self, tool: GatedTool, prepared: Prepared, answered: set[str]) -> Question | None:
        """The first question still to be asked. Raises ApprovalRefusal when any part of the call is blocked."""
        asking: list[Question] = []
        for question in prepared.questions:
            verdict = self._judge(tool, question)
            if verdict.kind == "block":
                raise ApprovalRefusal(verdict.reason)
            if verdict.kind == "ask" and question.identity not in answered:
                asking.append(question)
        return asking[0] if asking else None

    def _judge(self, tool: GatedTool, question: Question) -> Verdict:
        return decide(self._settings.rules, self._settings.mode, tool.name, question.uses)


def _may_answer(asked: Terms, needed: Terms) -> bool:
    """Whether a decision under the terms of one question is one on those of another."""
    if needed.approvers is not None and (asked.approvers is None or not set(asked.approvers) <= set(needed.approvers)):
        return False
    return asked.quorum >= needed.quorum and asked.forbid_own >= needed.forbid_own


def _check_arguments(tool: GatedTool, args: dict[str, Any], steps: Steps | None) -> None:
    if OVERSIZED in args:
        raise ModelRetry(
            f"The arguments of {tool.name} have {args[OVERSIZED]} bytes; at most {MAX_CALL_BYTES} are accepted "
            "in one answer. Do it in several smaller steps, or with less text."
        )
    problems = schema_problems(tool.schema, args, steps)
    if problems:
        raise ModelRetry(f"The arguments of {tool.name} are not valid: {'; '.join(problems[:5])}")


async def _explained(work: Awaitable[T]) -> T:
    """Await a step of a call, with Temporal's failures turned into ours."""
    try:
        return await work
    except FailureError as failure:
        raise explain(failure) from failure


def _told_of(outcome: Outcome, change: DecisionTaken) -> str:
    """What a person changed: a model that is not told goes on from what it wanted."""
    note = f"{change.by or 'A person'} changed this call before it ran. It ran with: {canonical(change.args)}"
    if change.note:
        note += f" ({change.note})"
    return f"{outcome.note}\n{note}" if outcome.note else note


def _with_note(outcome: Outcome) -> Outcome:
    if not outcome.note:
        return outcome
    if isinstance(outcome.value, str):
        return replace(outcome, value=f"{outcome.value}\n{outcome.note}")
    return replace(outcome, value={"result": outcome.value, "note": outcome.note})


def _rejection(decision: DecisionTaken) -> str:
    by = decision.by or "a person"
    return f"Rejected by {by}: {decision.note}" if decision.note else f"Rejected by {by}"


def for_model(error: LlmDoError) -> str:
    """What a model is told of an error."""
    text = str(error)
    if error.next_step is None:
        return text
    return f"{text}{' ' if text.endswith('.') else '. '}{error.next_step}"
