"""Asking a person about all similar questions at once: shows their table, or all of each, and sends one answer to each.

Called by the inbox. Each question is decided by itself, as it was shown; some of them may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import Console

from llm_do_temporal.cli.decisions import outcome_lines
from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.cli.holds import Holds
from llm_do_temporal.cli.terminal.lines import Interrupt, forget_typed
from llm_do_temporal.cli.terminal.pictures.question import question_text
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import Fate, FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import QuestionGroup, read_group
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind

_GROUP_MENU_LINES = 3
_UNSETTLED = (Fate.REFUSED, Fate.CHANGED, Fate.UNKNOWN)


class GroupAsker:
    """Asks about groups, one at a time."""

    def __init__(
        self,
        client: LlmDoClient,
        console: Console,
        interrupt: Interrupt,
        known: Callable[[str], int],
        holds: Holds | None = None,
    ) -> None:
        """`known` returns the number of questions in the list that are of the group with this key.

        Without `holds` answers take effect at once.
        """
        self._client = client
        self._console = console
        self._interrupt = interrupt
        self._known = known
        self._holds = holds if holds is not None else Holds(client, 0)

    def count(self, question: Question) -> int:
        """Return the number of questions in the list that are equal to this one, with itself."""
        return self._known(question.request.group.key)

    async def ask(self, key: str) -> set[tuple[str, str]]:
        """Ask about all of a group; return run and id of each question that needs no further answer."""
        prompter = Prompter(self._console, self._interrupt, lambda: None)
        group = await read_group(self._client, key)
        if group is None:
            prompter.tell("nothing of it waits for approval any more")
            return set()
        forget_typed()
        lines = group_lines(group, self._console.width)
        if len(lines) > self._console.height - _GROUP_MENU_LINES:
            await prompter.read("\n".join(lines))
        else:
            prompter.tell("\n".join(lines))
        return await self._answer(prompter, group)

    async def _whole(self, group: QuestionGroup) -> str:
        """Return all calls of a group, each whole, as far as they are still asked as they were shown."""
        asked: dict[FrozenQuestion, Question] = {}
        for run in dict.fromkeys(entry.run for entry in group.entries):
            with suppress(LlmDoError):  # it has ended meanwhile
                for one in await self._client.approvals(run):
                    asked[FrozenQuestion(run, one.id, one.request.digest)] = one
        width = self._console.width
        return "\n\n".join(
            question_text(asked[one], None, width)
            if one in asked
            else f"{one.id} of run {one.run} is not asked any more"
            for one in group.frozen()
        )

    async def _answer(self, prompter: Prompter, group: QuestionGroup) -> set[tuple[str, str]]:
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
                return set()
            if choice == "a" and questions:
                return await self._decide(prompter, questions, Decision(decision=DecisionKind.APPROVE))
            if choice == "r" and questions:
                reason = (await prompter.line("reason, which the models are told (empty: back): ") or "").strip()
                if reason:
                    return await self._decide(prompter, questions, Decision(decision=DecisionKind.REJECT, note=reason))
            elif choice == "v":
                await prompter.read(await self._whole(group))
            elif len(named) == 1:
                left_out ^= set(named)
            elif named:
                prompter.tell(f"several runs ask {choice}: type {' or '.join(f'{one.run} {one.id}' for one in named)}")
            elif choice:
                prompter.tell(
                    f"'{choice}' is not an answer; type one of the letters in brackets, or the id of a question"
                )

    async def _decide(
        self, prompter: Prompter, questions: Sequence[FrozenQuestion], decision: Decision
    ) -> set[tuple[str, str]]:
        answer = decision.model_copy(update={"by": login_name(), "hold": self._holds.seconds})
        outcomes = await self._client.decide_many(questions, answer)
        prompter.tell("\n".join(outcome_lines(outcomes)))
        held = [(one.question, one.until) for one in outcomes if one.until is not None]
        if held:
            prompter.tell(self._holds.note([question for question, _ in held], max(until for _, until in held)))
        return {(one.question.run, one.question.id) for one in outcomes if one.fate not in _UNSETTLED}
