"""The gate that every tool call passes: check, judge, perhaps ask a person, then carry out.

A tool says what a call is about to do (`prepare`) and how to do it (`PreparedCall.effect`). The gate alone
decides whether it happens. No person is asked before everything a machine can refuse has been
checked, and changed arguments are prepared and judged again from the start.

People decide about the preview that they saw, so that preview is part of the question (`Shown`), and the effect of
a call that a person was asked about is bound to it (`PreparedCall.bound`). Where the effect finds something else it
raises ShownDiffers and does nothing: the call is then prepared, shown and asked about again. So is a call that a person
changed into one that was not shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic_ai.exceptions import ModelRetry, ToolFailed
from temporalio.exceptions import FailureError
from temporalio.workflow import NondeterminismError, ReadOnlyContextError

from llm_do_temporal.errors import (
    ApprovalRefusal,
    ApprovalTimedOut,
    EffectFailed,
    LlmDoError,
    Refusal,
    RunAborted,
    ShownDiffers,
)
from llm_do_temporal.json_schema import Steps, read_value, schema_problems
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.messages.sizes import MAX_CALL_BYTES, OVERSIZED
from llm_do_temporal.policy.approvals import Judgement, Terms, allowed_by, decide
from llm_do_temporal.policy.files.sandbox import NO_FILES, Tree
from llm_do_temporal.policy.kinds.kind import AskedCall, may_cover
from llm_do_temporal.policy.models import CUT, cut_words
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.redaction.hidden_characters import without_advice
from llm_do_temporal.workflows.runtime.activities import CallKeys, carried_out
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.runtime.spans import tell_outcome, tool_span
from llm_do_temporal.workflows.tools.at_most_once import ask_whether_to_repeat, unknown_outcome
from llm_do_temporal.workflows.tools.gated_tool import (
    AsksDesk,
    GatedTool,
    PreparedCall,
    Shown,
    TakesOver,
    ToolOutcome,
    ToolQuestion,
)
from llm_do_temporal.workflows.tools.parts import NO_PARTS, KnownStep, Parts

T = TypeVar("T")
ENDS_INVOCATION = (RunAborted, ApprovalTimedOut, NondeterminismError, ReadOnlyContextError)
"""Errors of a call that reach neither the model nor the author's function: they end the invocation."""
MOST_ATTEMPTS = 5
"""Largest number of times that one call is asked about because something shown has changed since: something keeps
changing it."""
_UNSEEN = "the changed call was not shown in full"
_OTHERS_AGREE = "the changed call needs the agreement of other people"
_ENDED = "the run that this one goes on from ended"
_REASON_CHARS = 500
_SHOWN_CHARS = 150


@dataclass
class _Call:
    """State of a call on its way through the gate."""

    args: dict[str, Any]
    """Arguments of the call, with the changes that people made."""
    change: Verdict | None = None
    """The decision that put other arguments in the place of the model's."""
    answered: set[str] = field(default_factory=set[str])
    """Identities of the questions that need no answer any more."""
    previewed: set[str] = field(default_factory=set[str])
    """Identities among `answered` whose answer rests on a preview."""
    shown: Shown | None = None
    """Files and preview that were put to the desk last; None: nothing was."""
    asks: bool = False
    """Whether people are asked also where the call only changes a layer."""
    approval: str = ""
    """Id of the approval that the last of them came with; empty: nobody was asked, or it is not known."""
    again: str = ""
    """Id of the approval whose call is asked about again, not carried out; empty: none is."""
    changed: str = ""
    """Words for the thing that was not as it was shown, or not shown at all."""
    doubtful: bool = False
    """Whether the call may have happened in the run that this one goes on from, and nobody has decided about it."""

    def note(self, question: ToolQuestion, shown: Shown, prepared: PreparedCall) -> None:
        """Note that a question was answered by a person who had seen `shown`."""
        self.add({question.identity}, prepared)
        before = Shown() if self.shown is None else self.shown
        known = None
        if before.files is not None and shown.files is not None:
            known = tuple({file.path: file for file in (*before.files, *shown.files)}.values())
        self.shown = replace(shown, files=known)

    def add(self, answered: set[str], prepared: PreparedCall) -> None:
        """Note that the questions with these identities need no answer any more."""
        self.answered |= answered
        if prepared.preview is not None:
            self.previewed |= answered

    def forget(self, changed: str) -> None:
        """Forget the answers that rest on a preview, because something is no longer as it was shown: `changed`."""
        self.answered -= self.previewed
        self.previewed = set()
        self.ask_again(changed)

    def ask_again(self, why: str) -> None:
        """Note that the call is asked about again, and why."""
        self.again, self.changed = self.approval, why

    def reason(self, why: str) -> str:
        """Return why people are asked now: `why`, and why they are asked again."""
        if not self.changed:
            return why
        is_change = self.change is not None and self.change.approval == self.again
        done = (DecisionKind.MODIFY if is_change else DecisionKind.APPROVE).done
        undone = f"; {self.again} was {done}, and its call was not carried out" if self.again else ""
        return f"{why}; asked again: {self.changed}{undone}"


class Gate:
    """Carries one invocation's tool calls from judgement to effect."""

    def __init__(
        self,
        settings: RunSettings,
        desk: AsksDesk,
        begin: Callable[[], Awaitable[None]] | None = None,
        *,
        tree: Tree = NO_FILES,
        worker: str = "",
        parts: Parts = NO_PARTS,
    ) -> None:
        """`begin` is awaited before each effect and returns when the limits allow one more call; None: no limits.

        `tree`, `worker` and `parts` are those of the invocation.
        """
        self._parts = parts
        self._keys = CallKeys()
        self._tree = tree
        self._worker = worker
        self._begin = begin
        self._settings = settings
        self._desk = desk
        self._steps = Steps()
        self.has_accepted = False
        """Whether the arguments of a call were accepted since this was last set to False."""

    def begin_answer(self, turn_key: str = "") -> None:
        """Begin a model's next answer: the checks of all its calls together may take the steps of one validation.

        All calls of an answer begin in one task of the workflow, and each by itself could take all the time of a task.
        `turn_key` is the content key of the turn; empty: it has none.
        """
        self._steps = Steps()
        self._keys.begin_answer(turn_key)

    async def withdraw_abandoned(self) -> None:
        """Take back the questions of calls that were cancelled on their way through the gate."""
        await self._desk.withdraw_abandoned()

    async def call(self, tool: GatedTool, args: dict[str, Any], call_id: str | None = None) -> ToolOutcome:
        """Return the tool's result, with a note of what people changed, for the model. Raises the errors of
        `execute`."""
        return _with_note(await self.execute(tool, args, call_id, self._steps))

    async def execute(
        self, tool: GatedTool, args: dict[str, Any], call_id: str | None = None, steps: Steps | None = None
    ) -> ToolOutcome:
        """Return the tool's result and the note of what people changed, separately, for code that called the tool.

        `steps` may be spent on checking the arguments; None: as many as one validation may take.

        Raises ToolFailed with a text for the model, ModelRetry, or one of ENDS_INVOCATION.

        No other exception leaves but a cancellation and errors that Temporal has to see: it would fail the workflow's
        task, which is then tried for ever.
        """
        args, problem = _validate_arguments(tool, args, steps)
        with tool_span(tool.name, args, call_id) as span:
            key = self._keys.key_of(tool.name, args)
            with carried_out(key):
                outcome = await self._reuse_or_execute(tool, args, problem, key)
            tell_outcome(span, outcome.value, outcome.failure)
        return outcome

    async def _reuse_or_execute(self, tool: GatedTool, args: dict[str, Any], problem: str, key: str) -> ToolOutcome:
        try:
            call = _Call(args)
            advice = await _explained(self._parts.advice(key))
            if advice.known is not None:
                self.has_accepted = True
                return _taken_over(tool, args, advice.known)
            call.asks, call.doubtful = advice.asks, advice.doubtful
            if problem:
                raise ModelRetry(problem)
            self.has_accepted = True
            outcome, change = await self._execute_as_shown(tool, call)
            return outcome if change is None else replace(outcome, note=_change_note(outcome, change))
        except (*ENDS_INVOCATION, ModelRetry, ToolFailed):
            raise
        except Refusal as refusal:
            if self._settings.on_refusal == "abort":
                raise RunAborted(str(refusal)) from refusal
            raise ToolFailed(for_model(refusal)) from refusal
        except LlmDoError as error:
            raise ToolFailed(for_model(error)) from error
        except Exception as error:
            self._desk.report(tool, error)
            words = without_advice(f"{tool.name} failed unexpectedly: {type(error).__name__}: {error}"[:_REASON_CHARS])
            raise ToolFailed(words) from error

    async def _execute_as_shown(self, tool: GatedTool, call: _Call) -> tuple[ToolOutcome, Verdict | None]:
        """Carry the call out as it was shown, asking again where something has changed since.

        Returns the outcome and the decision that changed the arguments; None: they are the model's own.
        """
        begun = self._begin is None
        for _attempt in range(MOST_ATTEMPTS):
            try:
                prepared = await self._authorize(tool, call)
                if call.doubtful:
                    await self._ask_whether_to_repeat(tool, prepared)
                    call.doubtful = False
                if self._begin is not None and not begun:
                    await self._begin()
                    begun = True
                if call.shown is None or prepared.bound is None:
                    return await _explained(prepared.effect()), call.change
                return await _explained(prepared.bound(call.shown)), call.change
            except ShownDiffers as differs:
                call.forget(differs.message)
        raise EffectFailed(
            f"'{tool.name}' was not carried out: each of the {MOST_ATTEMPTS} times that it was agreed to, something "
            "was no longer as it had been shown",
            next_step="Find out what keeps changing it before you try again.",
        )

    async def _ask_whether_to_repeat(self, tool: GatedTool, prepared: PreparedCall) -> None:
        """Ask about a call that may have happened in the other run. Raises EffectFailed unless it is to be repeated."""
        if not prepared.questions:
            raise unknown_outcome(tool.name, _ENDED, None)
        question = prepared.questions[-1]
        ask = ask_whether_to_repeat(self._desk, self._settings, tool, question, what=question.summary[:_SHOWN_CHARS])
        answer = await _explained(ask(_ENDED))
        if answer is None or answer.decision is DecisionKind.REJECT:
            raise unknown_outcome(question.summary, _ENDED, answer)

    async def _authorize(self, tool: GatedTool, call: _Call) -> PreparedCall:
        """Return the call, prepared and allowed; `call` notes the previews and answers on the way."""
        prepared = await self._prepare(tool, call.args)
        while True:
            question = self._open_question(tool, prepared, call)
            if question is None and prepared.then is not None:
                prepared = await _explained(prepared.then())
                continue
            if question is None:
                return prepared
            shown = await _previewed(prepared)
            judged = self._judge(tool, question)
            asked = self._allowed(tool, shown.put_to(question), judged)
            reason = f"{judged.reason}; {shown.note}" if shown.note else judged.reason
            asked = replace(asked, again=call.again)
            asking = self._desk.ask(tool, asked, diff=shown.diff, reason=call.reason(reason), terms=judged.terms)
            decision = await _explained(asking)
            call.approval, call.again, call.changed = decision.approval, "", ""
            call.note(question, replace(shown, files=None if shown.files is None else asked.files), prepared)
            if decision.decision is DecisionKind.REJECT:
                raise ApprovalRefusal(_rejection(decision))
            if decision.decision is DecisionKind.MODIFY:
                problems = schema_problems(tool.schema, decision.args)
                if problems:
                    raise ApprovalRefusal(f"the changed arguments are not valid: {'; '.join(problems[:5])}")
                call.change, call.args = decision, decision.args
                prepared = await self._prepare(tool, decision.args)
                # The person who changed the call has answered its questions where all files it names are as shown, or
                # new.
                own = await _as_seen(prepared, asked, call)
                mine = {other.identity for other in own if _may_answer(judged.terms, self._judge(tool, other).terms)}
                call.add(mine, prepared)
                if self._open_question(tool, prepared, call) is not None:
                    call.ask_again(_OTHERS_AGREE if own else _UNSEEN)

    async def _prepare(self, tool: GatedTool, args: dict[str, Any]) -> PreparedCall:
        return await _explained(tool.prepare(args))

    def _open_question(self, tool: GatedTool, prepared: PreparedCall, call: _Call) -> ToolQuestion | None:
        """Return the first question still to be asked, or None. Raises ApprovalRefusal when any part is blocked."""
        asking: list[ToolQuestion] = []
        for question in prepared.questions:
            judgement = self._judge(tool, question)
            if judgement.kind == "block":
                raise ApprovalRefusal(judgement.reason)
            asks = judgement.kind == "ask" and (call.asks or not question.in_layer)
            if asks and question.identity not in call.answered:
                asking.append(question)
        return asking[0] if asking else None

    def _judge(self, tool: GatedTool, question: ToolQuestion) -> Judgement:
        rules = self._settings.rules
        allowable = bool(rules.allow) and may_cover(rules.allow, self._call(tool, question))
        return decide(rules, self._settings.mode, tool.name, question.uses, allowable=allowable)

    def _allowed(self, tool: GatedTool, asked: ToolQuestion, judged: Judgement) -> ToolQuestion:
        """Return the question with the entry that lets its call through, if one does.

        Raises ApprovalRefusal where none does and nobody may be asked.
        """
        words = allowed_by(self._settings.rules, judged.terms, self._call(tool, asked))
        if words is None and judged.asks_nobody:
            raise ApprovalRefusal(judged.reason)
        return asked if words is None else replace(asked, allowed=words)

    def _call(self, tool: GatedTool, question: ToolQuestion) -> AskedCall:
        return AskedCall(
            tool=tool.name,
            args=question.args,
            uses=question.uses,
            tree=self._tree,
            files=question.files,
            attachments=question.attachments,
            worker=self._worker,
            circumstances=question.circumstances,
            surroundings=question.surroundings,
        )


def _taken_over(tool: GatedTool, args: dict[str, Any], known: KnownStep) -> ToolOutcome:
    """Return the outcome that a call is known to have. Raises ToolFailed and ModelRetry where it has these."""
    outcome = known.for_model()
    if isinstance(tool, TakesOver):
        tool.take_over(args, outcome.value)
    return outcome


def _may_answer(asked: Terms, needed: Terms) -> bool:
    """Whether a decision under the terms `asked` also counts under the terms `needed`."""
    if needed.approvers is not None and (asked.approvers is None or not set(asked.approvers) <= set(needed.approvers)):
        return False
    return asked.quorum >= needed.quorum and asked.forbid_own >= needed.forbid_own


async def _as_seen(prepared: PreparedCall, asked: ToolQuestion, call: _Call) -> list[ToolQuestion]:
    """Return the questions of a changed call whose files were all shown with `asked`, or do not exist yet."""
    own = [question for question in prepared.questions if question.changeable]
    if own and prepared.preview is not None:
        shown = await _previewed(prepared)
        if shown.files is None or not asked.circumstances.endswith(shown.note):
            return []
        call.shown = replace(shown, files=tuple(file for question in own for file in question.files) + shown.files)
        return [question for question in own if _was_seen(asked, shown.put_to(question))]
    return [question for question in own if _was_seen(asked, question)]


def _was_seen(shown: ToolQuestion, now: ToolQuestion) -> bool:
    files = {file.path: file for file in shown.files}
    handed = {attachment.path: attachment.sha256 for attachment in shown.attachments}
    same = all(file.sha256 is None or (file.path in files and files[file.path].is_like(file)) for file in now.files)
    return same and all(handed.get(attachment.path) == attachment.sha256 for attachment in now.attachments)


async def _previewed(prepared: PreparedCall) -> Shown:
    if prepared.preview is None:
        return Shown()
    preview = await _explained(prepared.preview())
    return preview if isinstance(preview, Shown) else Shown(preview)


def _validate_arguments(tool: GatedTool, args: dict[str, Any], steps: Steps | None) -> tuple[dict[str, Any], str]:
    """Return the arguments in the form that the schema of the tool wants, and what is wrong with them; empty: nothing.

    What is returned is judged, shown to people and carried out.
    """
    if OVERSIZED in args:
        return args, (
            f"The arguments of {tool.name} have {args[OVERSIZED]} bytes; at most {MAX_CALL_BYTES} are accepted "
            "in one answer. Do it in several smaller steps, or with less text."
        )
    if CUT in args:
        return (
            args,
            f"{cut_words(args[CUT]).capitalize()} within this call of {tool.name}, so nothing was done. "
            "Call it again with less.",
        )
    read, problems = read_value(tool.schema, args, steps)
    return (
        (read, "") if not problems else (args, f"The arguments of {tool.name} are not valid: {'; '.join(problems[:5])}")
    )


async def _explained(work: Awaitable[T]) -> T:
    """Await a step of a call, with Temporal's failures turned into our errors."""
    try:
        return await work
    except FailureError as failure:
        raise explain(failure) from failure


def _change_note(outcome: ToolOutcome, change: Verdict) -> str:
    """Return a note of a person's change, for the model: without it, the model goes on as if its own call had run."""
    note = f"{change.by or 'A person'} changed this call before it ran. It ran with: {canonical(change.args)}"
    if change.note:
        note += f" ({change.note})"
    return f"{outcome.note}\n{note}" if outcome.note else note


def _with_note(outcome: ToolOutcome) -> ToolOutcome:
    if not outcome.note:
        return outcome
    if isinstance(outcome.value, str):
        return replace(outcome, value=f"{outcome.value}\n{outcome.note}")
    return replace(outcome, value={"result": outcome.value, "note": outcome.note})


def _rejection(decision: Verdict) -> str:
    by = decision.by or "a person"
    return f"Rejected by {by}: {decision.note}" if decision.note else f"Rejected by {by}"


def for_model(error: LlmDoError) -> str:
    """Return the text of an error for a model: message and next step."""
    text = str(error)
    if error.next_step is None:
        return text
    return f"{text}{' ' if text.endswith('.') else '. '}{error.next_step}"
