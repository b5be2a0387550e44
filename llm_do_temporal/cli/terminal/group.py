"""Asking a person about all equal questions at once: shows their table, reads the answer, tells what became of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from llm_do_temporal.cli.decisions import outcome_lines
from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.cli.terminal.lines import Interrupt, forget_typed
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import Fate, FrozenQuestion
from llm_do_temporal.client.groups import read_group
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind

_MENU_LINES = 3
_UNSETTLED = (Fate.REFUSED, Fate.CHANGED, Fate.UNKNOWN)


class GroupAsker:
    """Asks about groups, one at a time."""

    def __init__(
        self, client: LlmDoClient, console: Console, interrupt: Interrupt, known: Callable[[str], int]
    ) -> None:
        """`known` returns the number of questions in the list that are of the group with this key."""
        self._client = client
        self._console = console
        self._interrupt = interrupt
        self._known = known

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
        if len(lines) > self._console.height - _MENU_LINES:
            await prompter.read("\n".join(lines))
        else:
            prompter.tell("\n".join(lines))
        return await self._answer(prompter, group.frozen())

    async def _answer(self, prompter: Prompter, questions: Sequence[FrozenQuestion]) -> set[tuple[str, str]]:
        these = f"these {len(questions):,}"
        while True:
            prompter.tell(f"[a]pprove {these}  [r]eject {these}  [b]ack")
            line = await prompter.line(f"{len(questions):,} questions> ")
            choice = (line or "").strip().lower()[:1]
            if line is None or choice in ("b", "q"):
                return set()
            if choice == "a":
                return await self._decide(prompter, questions, Decision(decision=DecisionKind.APPROVE))
            if choice == "r":
                reason = (await prompter.line("reason, which the models are told (empty: back): ") or "").strip()
                if reason:
                    return await self._decide(prompter, questions, Decision(decision=DecisionKind.REJECT, note=reason))
            elif choice:
                prompter.tell(f"'{choice}' is not an answer; type one of the letters in brackets")

    async def _decide(
        self, prompter: Prompter, questions: Sequence[FrozenQuestion], decision: Decision
    ) -> set[tuple[str, str]]:
        outcomes = await self._client.decide_many(questions, decision.model_copy(update={"by": login_name()}))
        prompter.tell("\n".join(outcome_lines(outcomes)))
        return {(one.question.run, one.question.id) for one in outcomes if one.fate not in _UNSETTLED}
