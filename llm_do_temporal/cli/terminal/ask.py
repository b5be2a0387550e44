"""Asking a person about a call, or about all similar ones: shows it, reads the answer, sends the decision.

Called by the live screen of a run and by the inbox. Another person may decide meanwhile; then the question is
withdrawn, not repeated. Of a group each question is decided by itself, as it was shown; some may be left out.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from llm_do_temporal.cli.groups import group_lines, outcome_lines
from llm_do_temporal.cli.tables import kind_lines
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, note_shown
from llm_do_temporal.cli.terminal.prompts import CHECK_SECONDS, Interrupt, Prompter, forget_typed
from llm_do_temporal.cli.terminal.question import FittedQuestion, fit_question, joined, question_text
from llm_do_temporal.cli.text import value_line, visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import Fate, FrozenQuestion, OfferedKind, read_kinds, seconds_until
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import QuestionGroup, read_group
from llm_do_temporal.client.question_document import QuestionDocument, changed_arguments, document_of, read_background
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.policy.kinds.kind import DEFAULT_TIMES, KindGrant
from llm_do_temporal.ui.content.forms import editable_yaml, read_arguments

_MENU_LINES = 3
"""Lines of the letters below a question, with the prompt, and an empty one above it."""
AGREEING = ("a", "n", "s", "k")
"""Letters that agree to the call as it is shown."""
_GROUP_MENU_LINES = 3
_UNSETTLED = (Fate.REFUSED, Fate.CHANGED, Fate.UNKNOWN)
_SHOWN_PROBLEMS = 5


class _QuestionChanged(Exception):
    """The question was settled, or got a vote, while this person was being asked."""


@dataclass(frozen=True)
class LeaveKey:
    """Key with which a person leaves a question without an answer: the letter, and the words for the menu."""

    letter: str
    menu: str
    skips: bool = False
    """Whether `j` leads to the next question, too."""


class Parting(Enum):
    """Way in which a person and a question part."""

    SETTLED = auto()
    """No answer is needed any more, or not of this question as it was shown."""
    LEFT = auto()
    SKIPPED = auto()
    """Left for the next one."""


class AskedSubject:
    """Subject that a capability asks about by itself, on the terminal. Defaults are as for a call."""

    letters: tuple[str, ...] = ("[a]pprove",)
    """Letters of its own for the menu, with their words."""
    explained = ""
    """Lines about all letters that answer it."""

    def fit(self, document: QuestionDocument, width: int, height: int, *, others: int) -> FittedQuestion:
        """Return its beginning in at most `height` lines; `others` more questions wait."""
        return fit_question(document, width, height, others=others)

    def text(self, document: QuestionDocument, width: int) -> str:
        """Return all of it as plain text. Blocks: files may be read."""
        return question_text(document, width)

    def actions(
        self, asker: Asker, document: QuestionDocument, prompter: Prompter
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what its letters do; they replace those of a call that agree, and are added to the others."""
        return {}


class Asker:
    """Asks questions, one at a time."""

    def __init__(
        self,
        client: LlmDoClient,
        console: Console,
        interrupt: Interrupt,
        leave_key: LeaveKey,
        votes_of: Callable[[Question], int | None],
        known: Callable[[str], int] | None = None,
        hold_seconds: int = 0,
    ) -> None:
        """`votes_of` returns the number of votes that a question has so far; None once it needs no answer.

        `known` returns the number of questions in the list that are of the group with this key; None: no group is
        offered. Answers take effect after `hold_seconds`, and can be taken back until then.
        """
        self.answered: set[tuple[str, str]] = set()
        """Run and id of each question that needs no further answer of this person."""
        self.stopped: set[str] = set()
        """Ids of the runs that were asked to stop."""
        self._client = client
        self._console = console
        self._interrupt = interrupt
        self._leave_key = leave_key
        self._votes_of = votes_of
        self._known = known
        self._hold_seconds = hold_seconds
        self._held: list[tuple[Sequence[FrozenQuestion], datetime]] = []
        """Answers that have not taken effect, the newest one last."""
        self.unread = 0
        """Lines of the call that the screen had no room for, and that were not read yet."""
        self._subject: AskedSubject | None = None
        """Subject of a question that a capability asks; None: it is about a call, or a limit."""

    def wants(self, run: str, approval: str) -> bool:
        """Whether this person may still be asked about the approval of the run."""
        return run not in self.stopped and (run, approval) not in self.answered

    async def ask(self, question: Question, known: Sequence[Question], *, others: int = 0) -> Parting:
        """Ask until the question is settled or has changed, or the person leaves it.

        `known` are the questions of its run, decided or not; `others` more questions wait.
        """
        prompter = Prompter(self._console, self._interrupt, lambda: self._check(question))
        try:
            document = document_of(question, await read_background(self._client, question, known))
            view = document.view
            self._subject = (
                None if view is None else await view.on_terminal(self._client, question, prompter, self._console)
            )
            forget_typed()
            self._show(document, others)
            while self.wants(question.run, question.id):
                parting = await self._ask_once(document, prompter)
                if parting is not None:
                    return parting
        except _QuestionChanged:
            if self._votes_of(question) is None:
                self.answered.add((question.run, question.id))
                prompter.tell(f"{question.id} needs no answer any more")
            else:
                prompter.tell(f"somebody has agreed to {question.id} meanwhile")
        return Parting.SETTLED

    def _show(self, document: QuestionDocument, others: int) -> None:
        """Show the question as far as the screen has room for it."""
        width, height = self._console.width, self._console.height - _MENU_LINES
        fit = fit_question if self._subject is None else self._subject.fit
        fitted = fit(document, width, height, others=others)
        self.unread = fitted.unread
        self._note(document.question)
        self._console.print(joined(fitted.lines))

    async def _read(self, document: QuestionDocument, prompter: Prompter) -> None:
        text = question_text if self._subject is None else self._subject.text
        await prompter.read(await asyncio.to_thread(text, document, self._console.width))
        self.unread = 0
        self._note(document.question)

    async def _read_first(self, document: QuestionDocument, prompter: Prompter) -> None:
        prompter.tell(f"{self.unread:,} lines of it were not shown yet; here is all of it, then answer")
        await self._read(document, prompter)

    def _note(self, question: Question) -> None:
        """Note that this terminal has shown the question; or none, while some of it was not read."""
        shown = [] if self.unread else [ShownQuestion(question.id, question.request.digest)]
        note_shown(question.run, shown, on=self._console.file)

    async def _ask_once(self, document: QuestionDocument, prompter: Prompter) -> Parting | None:
        """Ask for one letter and do as it says; None: the question may still stand."""
        question = document.question
        equal = 0 if self._known is None else self._known(question.request.group.key)
        letters = (
            *(AskedSubject.letters if self._subject is None else self._subject.letters),
            "[r]eject",
            "[m]odify" if document.can("change") else "",
            f"[g]roup of {equal}" if equal > 1 else "",
        )
        letters += ("[v]iew all", self._leave_key.menu, self.undo_offer, "[?] more")
        prompter.tell("  ".join(letter for letter in letters if letter))
        line = await prompter.line(f"{question.id}> ")
        choice = (line or "").strip().lower()
        if line is None or choice in (self._leave_key.letter, "q"):
            return Parting.LEFT
        if choice == "j" and self._leave_key.skips:
            return Parting.SKIPPED
        act = self._actions(document, prompter, has_group=equal > 1).get(choice)
        if act is not None:
            await act()
        elif choice == "?":
            prompter.tell(self._explained(document, has_group=equal > 1))
        elif choice:
            prompter.tell(f"'{choice}' is not an answer; type one of the letters in brackets, or ? for all of them")
        return None

    def _actions(
        self, document: QuestionDocument, prompter: Prompter, *, has_group: bool
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what each letter does that is an answer now, but for those that leave the question."""
        asked = (document.question, prompter)
        reason = "reason, which the model is told (empty: back): "
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "a": partial(self.decide, *asked, DecisionKind.APPROVE),
            "n": partial(self._with_text, *asked, DecisionKind.APPROVE, "note (empty: back): "),
            "s": partial(self.decide, *asked, DecisionKind.APPROVE, remember=Remember.SESSION),
            "k": partial(self._with_kind, *asked),
            "r": partial(self._with_text, *asked, DecisionKind.REJECT, reason),
            "v": partial(self._read, document, prompter),
            "x": partial(self._stop, *asked),
        }
        if self._subject is not None:
            actions |= self._subject.actions(self, document, prompter)
        elif self.unread:
            actions |= dict.fromkeys(AGREEING, partial(self._read_first, document, prompter))
        if document.can("change"):
            actions["m"] = partial(self._modify, *asked)
        if self.undo_offer:
            actions["u"] = partial(self.take_back, prompter.tell)
        if has_group:
            actions["g"] = partial(self.ask_group, document.question.request.group.key)
        return actions

    def _explained(self, document: QuestionDocument, *, has_group: bool) -> str:
        if self._subject is not None:
            return self._subject.explained
        can_change = document.can("change")
        letters = {
            "a": "approve: the call happens as it is shown",
            "n": "approve, with a note that is kept with the decision",
            "s": "approve, and remember it for identical calls of this run",
            "k": "approve, and the same for a kind of calls of this run, within limits",
            "m": "change the arguments in an editor; they are checked before anything is sent" if can_change else "",
            "r": "reject, with a reason that the model is told",
            "g": "decide all similar questions of all runs, after a look at their table" if has_group else "",
            "v": "show the whole question, with all that the model said",
            "j": "leave it unanswered, and go to the next question" if self._leave_key.skips else "",
            self._leave_key.letter: "leave it unanswered",
            "u": "take your last answer back, while it has not taken effect" if self.undo_offer else "",
            "x": "stop the whole run, after one more question",
        }
        return "\n".join(f"  {letter}  {meaning}" for letter, meaning in letters.items() if meaning)

    @property
    def undo_offer(self) -> str:
        """The letter that takes the newest answer back, for a menu; empty without one."""
        self._held = [(questions, until) for questions, until in self._held if seconds_until(until)]
        if not self._held:
            return ""
        questions, until = self._held[-1]
        name = visible_line(questions[0].id) if len(questions) == 1 else f"all {len(questions):,}"
        return f"[u]ndo {name} ({seconds_until(until)} s)"

    def hold(self, questions: Sequence[FrozenQuestion], until: datetime) -> str:
        """Note an answer that can be taken back, and return in words when it takes effect."""
        self._held.append((questions, until))
        return f"takes effect in {seconds_until(until)} s; u takes it back"

    async def take_back(self, tell: Callable[[str], None]) -> None:
        """Take the newest answer back that has not taken effect: its questions are open again."""
        questions, _ = self._held.pop()
        for one in await self._client.decide_many(questions, Decision(decision=None, by=login_name())):
            name, state = (one.question.run, one.question.id), "waits again" if one.fate.counts else "stands"
            tell(f"{name[1]} of {name[0]} {state}{visible_line(one.words and f': {one.words}', 300)}")
            if one.fate.counts:
                self.answered.discard(name)

    async def _with_text(self, question: Question, prompter: Prompter, kind: DecisionKind, ask: str) -> None:
        note = (await prompter.line(ask) or "").strip()
        if note:
            await self.decide(question, prompter, kind, note=note)

    async def _with_kind(self, question: Question, prompter: Prompter) -> None:
        offers = await read_kinds(self._client, question.run, question.id)
        grant = await ask_for_grant(offers, prompter)
        if grant is not None:
            await self.decide(question, prompter, DecisionKind.APPROVE, grant=grant)

    async def _modify(self, question: Question, prompter: Prompter) -> None:
        args = await ask_for_change(question, prompter)
        if args is not None:
            await self.decide(question, prompter, DecisionKind.MODIFY, args=args)

    async def _stop(self, question: Question, prompter: Prompter) -> None:
        if await prompter.yes(f"stop the whole run {question.run}?", default=False):
            self.stopped.add(question.run)
            try:
                await self._client.cancel(question.run)
            except UsageError as gone:
                prompter.tell(_words(gone))
            else:
                prompter.tell(f"asked run {question.run} to stop")

    async def decide(
        self,
        question: Question,
        prompter: Prompter,
        kind: DecisionKind,
        *,
        args: dict[str, Any] | None = None,
        note: str = "",
        remember: Remember = Remember.NONE,
        grant: KindGrant | None = None,
    ) -> None:
        """Send a decision about the question as it was shown, and tell what came of it."""
        sent, agreed_args = kind, args
        if kind is DecisionKind.APPROVE and question.args != question.request.args:
            # Others have changed the call: agreeing names what was shown here.
            sent, agreed_args = DecisionKind.MODIFY, question.args
        decision = Decision(
            id=question.id,
            decision=sent,
            args=agreed_args,
            digest=question.request.digest or None,
            note=note,
            remember=remember,
            by=login_name(),
            grant=grant,
            hold=self._hold_seconds,
        )
        try:
            taken = await self._client.decide(question.run, decision)
        except DecisionRefused as refused:
            prompter.tell(_words(refused))
            # Whatever the reason, a moment later it is known whether the question still stands.
            await asyncio.sleep(CHECK_SECONDS)
            self._check(question)
            return
        self.answered.add((question.run, question.id))
        if taken is None:
            prompter.tell(f"{question.id} {kind.done}: sent; no worker service has answered yet")
        elif taken.held is not None and taken.held.effective_at is not None:
            frozen = FrozenQuestion(question.run, question.id, question.request.digest)
            prompter.tell(f"{question.id} {kind.done}: {self.hold([frozen], taken.held.effective_at)}")
        elif taken.verdict is None:
            agreed = f"{len(taken.votes)} of {taken.request.quorum} people have agreed"
            prompter.tell(f"{question.id} {kind.done}: {agreed}, it waits for others")
        else:
            more = f", and {value_line(grant.words)}" if grant is not None else ""
            prompter.tell(f"{question.id} {kind.done}{more}")

    def _check(self, question: Question) -> None:
        votes = self._votes_of(question)
        if votes is None or votes > len(question.votes):
            raise _QuestionChanged

    async def ask_group(self, key: str) -> None:
        """Ask about all of a group."""
        prompter = Prompter(self._console, self._interrupt, lambda: None)
        group = await read_group(self._client, key)
        if group is None:
            prompter.tell("nothing of it waits for approval any more")
            return
        forget_typed()
        lines = group_lines(group, self._console.width)
        if len(lines) > self._console.height - _GROUP_MENU_LINES:
            await prompter.read("\n".join(lines))
        else:
            prompter.tell("\n".join(lines))
        await self._answer_group(prompter, group)

    async def _group_text(self, group: QuestionGroup) -> str:
        """Return all calls of a group, each whole, as far as they are still asked as they were shown."""
        asked: dict[FrozenQuestion, Question] = {}
        for run in dict.fromkeys(entry.run for entry in group.entries):
            with suppress(LlmDoError):  # it has ended meanwhile
                for one in await self._client.approvals(run):
                    asked[FrozenQuestion(run, one.id, one.request.digest)] = one
        width = self._console.width
        return "\n\n".join(
            question_text(document_of(asked[one]), width)
            if one in asked
            else f"{one.id} of run {one.run} is not asked any more"
            for one in group.frozen()
        )

    async def _answer_group(self, prompter: Prompter, group: QuestionGroup) -> None:
        asked, left_out = group.frozen(), set[FrozenQuestion]()
        while True:
            questions = [one for one in asked if one not in left_out]
            these = f"these {len(questions):,}"
            out = f" (without {', '.join(one.id for one in asked if one in left_out)})" if left_out else ""
            prompter.tell(f"[a]pprove {these}  [r]eject {these}{out}  [v]iew all  [b]ack  or an id to leave it out")
            line = await prompter.line(f"{len(questions):,} questions> ")
            choice = (line or "").strip().lower()
            named = [one for one in asked if choice in (one.id.lower(), f"{one.run} {one.id}".lower())]
            if line is None or choice in ("b", "q"):
                return None
            if choice == "a" and questions:
                return await self._decide_group(prompter, questions, Decision(decision=DecisionKind.APPROVE))
            if choice == "r" and questions:
                reason = (await prompter.line("reason, which the models are told (empty: back): ") or "").strip()
                if reason:
                    return await self._decide_group(
                        prompter, questions, Decision(decision=DecisionKind.REJECT, note=reason)
                    )
            elif choice == "v":
                await prompter.read(await self._group_text(group))
            elif len(named) == 1:
                left_out ^= set(named)
            elif named:
                prompter.tell(f"several runs ask {choice}: type {' or '.join(f'{one.run} {one.id}' for one in named)}")
            elif choice:
                prompter.tell(
                    f"'{choice}' is not an answer; type one of the letters in brackets, or the id of a question"
                )

    async def _decide_group(self, prompter: Prompter, questions: Sequence[FrozenQuestion], decision: Decision) -> None:
        answer = decision.model_copy(update={"by": login_name(), "hold": self._hold_seconds})
        outcomes = await self._client.decide_many(questions, answer)
        prompter.tell("\n".join(outcome_lines(outcomes)))
        held = [(one.question, one.until) for one in outcomes if one.until is not None]
        if held:
            prompter.tell(self.hold([question for question, _ in held], max(until for _, until in held)))
        self.answered |= {(one.question.run, one.question.id) for one in outcomes if one.fate not in _UNSETTLED}


def _words(error: LlmDoError) -> str:
    return f"{error.message}\n  {error.next_step}" if error.next_step else error.message


async def ask_for_grant(offers: list[OfferedKind], prompter: Prompter) -> KindGrant | None:
    """Show the kinds, numbered, and return the grant that the person wants; None: none after all."""
    if not offers:
        prompter.tell("no kind of calls fits this call: it is asked about by itself")
        return None
    for line in kind_lines(offers):
        prompter.tell(line)
    typed = (await prompter.line("number of the kind (empty: back): ") or "").strip()
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(offers)):
        prompter.tell(f"'{typed}' is none of the numbers above")
        return None
    times = await prompter.line(f"how many more calls (empty: {DEFAULT_TIMES}): ")
    time = await prompter.line("for how long, like 30m or 2h (empty: 1h): ")
    if times is None or time is None:
        return None
    given = {name: value.strip() for name, value in (("times", times), ("seconds", time)) if value.strip()}
    try:
        return KindGrant.model_validate({"kind": offers[int(typed) - 1].kind, **given})
    except ValidationError as error:
        prompter.tell(error.errors()[0]["msg"].removeprefix("Value error, "))
        return None


async def ask_for_change(question: Question, prompter: Prompter) -> dict[str, Any] | None:
    """Return new arguments that fit the tool and that the person has confirmed; None if nothing is to be sent.

    Editing begins with the arguments that are agreed to now. A text with a mistake is offered again as it was typed.
    """
    text = heading(question) + editable_yaml(question.args)
    while True:
        edited = await prompter.edited(text, "new arguments, YAML or JSON")
        if edited is None:
            return None
        args, problem = fitting_arguments(edited, question.request.args_schema or {})
        if args is not None:
            changes = list(changed_arguments(question.args, args))
            if not changes:
                prompter.tell("nothing was changed, so nothing is decided")
                return None
            prompter.tell("\n".join("\n  ".join((f"{name}:", *lines)) for name, lines in changes))
            if await prompter.yes("approve with this change?", default=False):
                return args
        else:
            prompter.tell(problem)
        if not await prompter.yes("edit again?", default=True):
            return None
        text = edited


def check_editor(
    what: str = "the arguments", otherwise: str = "Give all of them: --args '{…}' or --args @FILE."
) -> None:
    """Raise UsageError where nobody could edit `what`; `otherwise` says what to do there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"there is no terminal to edit {what} in", next_step=otherwise)


async def edit_pending(
    client: LlmDoClient, run: str, meant: ShownQuestion
) -> tuple[ShownQuestion, dict[str, Any] | None]:
    """Let a person edit the arguments of a question that waits; return it with the new ones, None for no change.

    Raises UsageError for a question that cannot be changed.
    """
    asked = await client.approvals(run)
    question = next((one for one in asked if one.id == meant.id), None)
    if question is None:
        pending = ", ".join(one.id for one in asked) or "none"
        raise UsageError(f"run '{run}' does not ask '{meant.id}'; pending: {pending}")
    if question.request.args_schema is None:
        raise UsageError(f"approval '{question.id}' cannot be changed, only approved or rejected")
    prompter = Prompter(Console(stderr=True, highlight=False), Interrupt(), lambda: None)
    changed = await ask_for_change(question, prompter)
    # An earlier look may have been at another question of this id: the decision is then refused.
    return ShownQuestion(question.id, meant.digest or question.request.digest), changed


def heading(question: Question) -> str:
    """Return the comment at the top of the text."""
    # No words of the arguments: whoever looks for one in the editor is to find the argument.
    named = f"# {question.id}: {visible_line(question.request.tool, 100)}"
    return f"{named}\n# Save and close to go on; saved unchanged, nothing is decided.\n"


def fitting_arguments(text: str, schema: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments in a text and an empty string, or None and the reason why they cannot be used."""
    try:
        args = read_arguments(text)
    except UsageError as error:
        return None, error.message
    problems = schema_problems(schema, args)
    if problems:
        return None, "the new arguments are not valid: " + "; ".join(problems[:_SHOWN_PROBLEMS])
    return args, ""
