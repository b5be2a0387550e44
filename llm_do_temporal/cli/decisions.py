"""Decisions about several questions from the command line: shown whole, confirmed, and told about one by one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from llm_do_temporal.cli.groups import all_lines, check_unnamed_run
from llm_do_temporal.cli.output import WAITING, print_json
from llm_do_temporal.cli.session import opened
from llm_do_temporal.cli.tables import format_table, width_of
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.client.decisions import Fate, counted, with_asked_again
from llm_do_temporal.client.open_questions import QuestionGroup, read_group, read_run
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import DecisionKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_do_temporal.cli.options import Location, Several
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.decisions import QuestionOutcome
    from llm_do_temporal.messages.approvals import Decision

_WORDS = {
    Fate.TAKEN: "taken",
    Fate.AGREED: "waiting for others",
    Fate.SENT: "sent, no worker service has answered yet",
    Fate.LATE: "late, somebody was faster",
    Fate.CHANGED: "changed meanwhile",
    Fate.GONE: "gone, nobody needs an answer any more",
    Fate.REFUSED: "refused",
    Fate.UNKNOWN: "unknown, the connection was lost",
    Fate.AGAIN: "not carried out and asked again",
}


async def decide_several(location: Location, run: str | None, several: Several, decision: Decision) -> int:
    """Decide all questions of a run, or of a group; return the exit code.

    0: each was taken, or is on its way; WAITING: each was taken, and calls are asked about again."""
    if several.all and several.group is not None:
        raise UsageError("--all is about one run and --group about all; give one of them")
    if several.group is not None:
        check_unnamed_run(run)
    elif run is None:
        raise UsageError("--all is about one run; name it: RUN --all")
    async with opened(location, "decision") as session:
        found = await _groups(session.client, run, several.group)
        groups = [group for group in found if all(entry.view is None for entry in group.entries)]
        views = {view.noun: view for group in found for entry in group.entries if (view := entry.view) is not None}
        for view in views.values():
            say(f"{view.noun}s are answered one by one: {location.command(view.command(run or ''))}")
        questions = [question for group in groups for question in group.frozen()]
        if not questions:
            say("nothing of it waits for approval")
            return 0
        say("\n".join(all_lines(groups, width_of(sys.stderr))))
        verb = "reject" if decision.decision is DecisionKind.REJECT else "approve"
        if not several.yes and not await _is_meant(f"{verb} {_these(len(questions))}"):
            say("nothing was decided")
            return 1
        outcomes = await with_asked_again(session.client, await session.client.decide_many(questions, decision))
    if several.as_json:
        print_json([outcome.as_json() for outcome in outcomes], pretty=True)
    say("\n".join(outcome_lines(outcomes)))
    if any(not outcome.fate.counts for outcome in outcomes):
        return DecisionRefused.exit_code
    return WAITING if any(outcome.fate is Fate.AGAIN for outcome in outcomes) else 0


def outcome_lines(outcomes: Sequence[QuestionOutcome]) -> list[str]:
    """Return what became of the questions: counts, and a line for each that was not simply taken or sent."""
    counts = ", ".join(f"{count:,} {_WORDS[fate]}" for fate, count in counted(outcomes).items())
    told = [one for one in outcomes if one.words]
    rows = [(one.question.run, one.question.id, one.fate.value, visible_line(one.words, 300)) for one in told]
    table = format_table(("RUN", "ID", "OUTCOME", ""), rows, None) if rows else []
    return [f"{len(outcomes):,} decided: {counts}", *(f"  {line}" for line in table)]


async def _groups(client: LlmDoClient, run: str | None, key: str | None) -> list[QuestionGroup]:
    if key is not None:
        group = await read_group(client, key)
        return [] if group is None else [group]
    return (await read_run(client, run or "")).groups


async def _is_meant(what: str) -> bool:
    """Whether the person at the terminal agrees. Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"nobody can be asked here whether to {what}; nothing was decided", next_step="Add --yes.")
    from llm_do_temporal.cli.terminal.prompts import read_line

    typed = await read_line(f"{what}? [y/N] ")
    return (typed or "").strip().lower() in ("y", "yes")


def _these(count: int) -> str:
    return "this one" if count == 1 else f"these {count:,}"
