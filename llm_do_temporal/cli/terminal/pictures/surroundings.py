"""Facts around a question that its call does not tell: the task, the model's words, decisions on calls like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from llm_do_temporal.cli.tables import ago
from llm_do_temporal.cli.terminal.pictures.text_lines import indented
from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.ui.content.background import Background, read_background
from llm_do_temporal.ui.content.precedents import Precedents, precedents_of

_STYLES = {DecisionKind.APPROVE: "green", DecisionKind.REJECT: "red", DecisionKind.MODIFY: "yellow"}
_SHORT_LINES = 3
"""Lines of the model's words where room is short."""


@dataclass(frozen=True)
class Surroundings:
    """Facts around a question, as far as they could be read."""

    background: Background
    precedents: Precedents


async def read_surroundings(client: LlmDoClient, question: Question, known: Sequence[Question]) -> Surroundings:
    """Return the facts around a question; `known` are the questions of its run, decided or not."""
    return Surroundings(await read_background(client, question), precedents_of(question, known))


def surrounding_lines(question: Question, around: Surroundings, width: int, *, is_short: bool) -> list[Text]:
    """Return the lines about task, words and precedents; where it `is_short`, a few of each."""
    begun, lines = around.background.begun, list[Text]()
    who = f", started by {visible_line(begun.started_by, 80)}" if begun.started_by else ""
    about = question.task or begun.task
    if about or who:
        task = Text.assemble((visible_line(about, 300) or visible_line(begun.worker, 80), "bold"), who)
        lines += _named("task", task, width, 1 if is_short else None)
    words = around.background.words
    if words is not None:
        before = f" {_turns(words.turns_before)} before" if words.turns_before else ""
        said = Text(visible_block(remove_keys(_unspaced(words.text) if is_short else words.text)), style="italic")
        lines += _named(f"said{before}", said, width, _SHORT_LINES if is_short else None)
    lines += _precedents(question, around.precedents, width, is_short=is_short)
    return lines


def _precedents(question: Question, precedents: Precedents, width: int, *, is_short: bool) -> list[Text]:
    """Return a line with the number of decisions on calls like this, and the newest: first those that said no."""
    if not precedents.newest and not precedents.waiting:
        return []
    tool, place = question.request.tool, precedents.place
    where = f" in {place}" if place.startswith("/") else f" {place}" if place not in ("", tool) else ""
    counts = [Text(f"{count} {kind.done}", style=_STYLES[kind]) for kind, count in precedents.counts.items()]
    if precedents.waiting:
        counts.append(Text(f"{precedents.waiting} more {'waits' if precedents.waiting == 1 else 'wait'}"))
    told = Text(", ").join(counts).append(f" ({visible_line(tool + where, 120)})", style="dim")
    lines = _named("like it", told, width, 1 if is_short else None)
    unlike = [one for one in precedents.newest if one.verdict and one.verdict.decision is not DecisionKind.APPROVE]
    for one in unlike[:1] if is_short else precedents.newest:
        lines += indented(_precedent(one), width, 4, 1 if is_short else None)
    return lines


def _precedent(one: Question) -> Text:
    verdict = one.verdict
    if verdict is None:
        return Text(one.id)
    by = visible_line(verdict.by or "somebody", 80)
    note = f": {visible_line(verdict.note, 200)}" if verdict.note else ""
    about = f" ({visible_line(one.request.summary, 200)})"
    done = (verdict.decision.done, _STYLES[verdict.decision])
    return Text.assemble(f"{one.id} ", done, f" by {by} {ago(verdict.at)}{note}", (about, "dim"))


def _named(name: str, told: Text, width: int, most: int | None) -> list[Text]:
    """Return `told` behind its name, in at most so many lines."""
    return indented(Text.assemble((f"{name}: ", "dim"), told), width, 2, most)


def _unspaced(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip())


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
