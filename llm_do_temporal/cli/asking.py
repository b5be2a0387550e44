"""Asking a person, in place, about one call: shows the whole of it, reads the answer, sends the decision.

Called by the screen. Somebody else may decide meanwhile; then the question is withdrawn, not repeated.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from llm_do_temporal.cli.plain_text import visible_block, visible_line
from llm_do_temporal.cli.question import render_question
from llm_do_temporal.cli.terminal_lines import Interrupt, edit, editor, forget_typed, read_line
from llm_do_temporal.client.runs import LlmDoClient, PendingApproval
from llm_do_temporal.client.view import RunView
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.login import login_name
from llm_do_temporal.messages import Decision, DecisionKind, PendingApprovalMemo, Remember

_CHECK_SECONDS = 0.25
_MENU = "[a]pprove  approve and remember for thi[s] run  {modify}[r]eject  [d]etach  [q]uit the run"


class AnsweredElsewhere(Exception):
    """The question went away while a person was being asked."""


class Asker:
    """Asks the questions of one run."""

    def __init__(self, client: LlmDoClient, view: RunView, console: Console, interrupt: Interrupt) -> None:
        self._client = client
        self._view = view
        self._console = console
        self._interrupt = interrupt
        self._answered: set[str] = set()
        self._quitting = False

    @property
    def unanswered(self) -> list[PendingApprovalMemo]:
        """What waits and was not answered here; nothing any more once the run was asked to stop."""
        if self._quitting:
            return []
        return [one for one in self._view.pending if one.id not in self._answered]

    async def ask(self, pending: PendingApproval) -> None:
        """Ask until the question is settled, or the person leaves."""
        self._console.print(render_question(pending))
        self._console.print(Text(self._headline(pending), style="bold"))
        forget_typed()
        try:
            while pending.id not in self._answered and not self._quitting:
                await self._ask_once(pending)
        except AnsweredElsewhere:
            self._answered.add(pending.id)
            self._tell(f"{pending.id} needs no answer any more")

    def _headline(self, pending: PendingApproval) -> str:
        """What is asked, once more: a long call may have scrolled its beginning away."""
        others = len(self.unanswered) - 1
        more = f" ({others} more waiting)" if others > 0 else ""
        return f"{pending.id}: {visible_line(pending.request.summary)}{more}"

    async def _ask_once(self, pending: PendingApproval) -> None:
        can_change = pending.request.args_schema is not None
        self._tell(_MENU.format(modify="[m]odify  " if can_change else ""))
        line = await self._read(pending, f"{pending.id}> ")
        choice = (line or "").strip().lower()
        if line is None or choice in ("d", "detach"):
            await self._detach()
        elif choice in ("a", "approve"):
            await self._decide(pending, DecisionKind.APPROVE)
        elif choice in ("s", "remember"):
            await self._decide(pending, DecisionKind.APPROVE, remember=Remember.SESSION)
        elif choice in ("r", "reject"):
            await self._reject(pending)
        elif choice in ("m", "modify") and can_change:
            await self._modify(pending)
        elif choice in ("q", "quit"):
            await self._quit(pending)
        elif choice:
            self._tell(f"'{choice[:20]}' is not an answer; type one of the letters in brackets")

    async def _reject(self, pending: PendingApproval) -> None:
        reason = await self._read(pending, "reason, which the model is told (empty: back): ")
        if reason and reason.strip():
            await self._decide(pending, DecisionKind.REJECT, note=reason.strip())

    async def _modify(self, pending: PendingApproval) -> None:
        text = json.dumps(pending.request.args, indent=2, ensure_ascii=False)
        while pending.id not in self._answered:
            edited = await self._edited(pending, text)
            if edited is None:
                return
            problem = await self._try_change(pending, edited)
            if problem is None:
                return
            self._tell(problem)
            again = await self._read(pending, "edit again? [Y/n] ")
            if again is None or again.strip().lower() in ("n", "no"):
                return
            text = edited

    async def _edited(self, pending: PendingApproval, text: str) -> str | None:
        command = editor()
        if command is not None:
            return await self._unless_gone(pending, edit(text, command, self._interrupt))
        line = await self._read(pending, "new arguments, JSON on one line (empty: back): ")
        return line if line and line.strip() else None

    async def _try_change(self, pending: PendingApproval, edited: str) -> str | None:
        """Send changed arguments; says what is wrong with them, if anything is."""
        try:
            args: Any = json.loads(edited)
        except (ValueError, RecursionError) as error:
            return f"that is not JSON: {error}"
        if not isinstance(args, dict):
            return 'the arguments are an object, like {"path": "/a.txt"}'
        if args == pending.request.args:
            self._tell("nothing was changed")
            return None
        return await self._decide(pending, DecisionKind.MODIFY, args=cast("dict[str, Any]", args))

    async def _decide(
        self,
        pending: PendingApproval,
        kind: DecisionKind,
        *,
        args: dict[str, Any] | None = None,
        note: str = "",
        remember: Remember = Remember.NONE,
    ) -> str | None:
        """Send a decision; returns why it was refused, having said so unless it can be corrected."""
        decision = Decision(id=pending.id, decision=kind, args=args, note=note, remember=remember, by=login_name())
        try:
            approval = await self._client.decide(pending.run, decision)
        except DecisionRefused as refused:
            if kind is not DecisionKind.MODIFY:
                self._tell(refused.message)
                # Whatever is wrong, the history tells within a moment whether the question still stands.
                await asyncio.sleep(_CHECK_SECONDS)
                self._check_open(pending)
            return refused.message
        self._answered.add(pending.id)
        done = {DecisionKind.APPROVE: "approved", DecisionKind.REJECT: "rejected", DecisionKind.MODIFY: "modified"}[
            kind
        ]
        if approval is None:
            self._tell(f"{pending.id} {done}: sent; no worker service has answered yet")
        else:
            self._tell(f"{pending.id} {done}")
        return None

    async def _detach(self) -> None:
        self._interrupt.raise_it()
        # Whoever waits for the interrupt ends this task.
        await asyncio.Event().wait()

    async def _quit(self, pending: PendingApproval) -> None:
        sure = await self._read(pending, "cancel the whole run? [y/N] ")
        if sure and sure.strip().lower() in ("y", "yes"):
            await self._client.cancel(pending.run)
            self._quitting = True

    async def _read(self, pending: PendingApproval, prompt: str) -> str | None:
        return await self._unless_gone(pending, read_line(prompt))

    async def _unless_gone(self, pending: PendingApproval, typing: Awaitable[str | None]) -> str | None:
        """What is typed. Raises AnsweredElsewhere as soon as nobody needs it any more."""
        task = asyncio.ensure_future(typing)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_CHECK_SECONDS)
                # An editor is left to its user; the answer is refused afterwards.
                if not self._interrupt.held:
                    self._check_open(pending)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _check_open(self, pending: PendingApproval) -> None:
        if all(one.id != pending.id for one in self._view.pending):
            raise AnsweredElsewhere

    def _tell(self, text: str) -> None:
        self._console.print(Text(visible_block(text)))
