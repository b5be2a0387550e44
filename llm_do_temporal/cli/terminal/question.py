"""Question on the terminal, in lines: what it is about, who may decide, the whole call, and the change it would make.

Pure. Texts of a model are indented and marked, so that none of them can pass for the prompt or for a field. Nothing is
cut for good: what a screen has no room for is counted before anything is printed, and has to be read before anybody
agrees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from llm_do_temporal.cli.tables import ago
from llm_do_temporal.cli.text import value_line, visible_block, visible_line, visible_source
from llm_do_temporal.client.question_document import Background, CallPart, Precedents, QuestionDocument, answer_words
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.redaction.configured_keys import remove_keys

NAME_CHARS = 200
_INDENT = 4
_MARK = "| "
"""Beginning of each line of a text that somebody else wrote."""
_SHORT_CHARS = 200
"""Longer values get lines of their own."""
_MOST_COLUMNS = 200
"""Longest rule: a line in a pipe has no end."""
_FEWEST_LINES = 3
"""Lines that every part of a call gets on a screen, if it has as many: its name, its beginning, and what is left."""
_SHORT_LINES = 3
"""Lines of the model's words where room is short."""
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_DECISION_STYLES = {DecisionKind.APPROVE: "green", DecisionKind.REJECT: "red", DecisionKind.MODIFY: "yellow"}
_DIGEST, _DIGEST_CHARS = re.compile(r"[0-9a-f]{64}"), 12
_MEASURE = Console(color_system=None, highlight=False, markup=False, emoji=False)


@dataclass(frozen=True)
class FittedQuestion:
    """Question as far as a screen has room for it."""

    lines: list[Text]
    unread: int
    """Lines of the call that are not among them, and that nothing among them tells."""


@dataclass(frozen=True)
class _Part:
    """Part of a call, in lines."""

    name: str
    lines: list[Text]
    is_told: bool = False
    """Whether a difference above shows all that it changes."""


def wrapped(text: Text, width: int) -> list[Text]:
    """Return the text in lines that are no wider than `width`."""
    return list(text.wrap(_MEASURE, max(width, 1)))


def indented(text: Text, width: int, columns: int, most: int | None = None) -> list[Text]:
    """Return the text in lines of at most `width` with their indent, at most so many; the last then ends in `…`."""
    lines = wrapped(text, width - columns)
    if most is not None and len(lines) > most:
        lines = lines[:most]
        lines[-1].truncate(max(width - columns - 1, 1))
        lines[-1].rstrip()
        lines[-1].append("…")
    for line in filter(None, lines):
        line.pad_left(columns)
    return lines


def marked(text: Text, width: int, columns: int, most: int | None = None) -> list[Text]:
    """Return a text of somebody else like `indented`, with each line marked: none can pass for a line of ours."""
    return [_marked(columns, line) for line in indented(text, width - columns - len(_MARK), 0, most)]


def joined(lines: Iterable[Text]) -> Text:
    """Return lines as one text to print."""
    return Text("\n", no_wrap=True).join(lines)


def fit_question(document: QuestionDocument, width: int, height: int, *, others: int = 0) -> FittedQuestion:
    """Return the question in at most `height` lines of this width, long parts with their beginnings.

    Its first line says that `others` wait, too.
    """
    head, parts = _head(document, width, others), _parts(document, width, is_short=True)
    room = height - len(head)
    lines, unread = list(head), 0
    told, parts = [one.name for one in parts if one.is_told], [one for one in parts if not one.is_told]
    room -= bool(told)
    for number, part in enumerate(parts):
        later = sum(min(len(one.lines), _FEWEST_LINES) for one in parts[number + 1 :])
        share = max(room - (len(lines) - len(head)) - later, _FEWEST_LINES)
        if len(part.lines) <= share:
            lines += part.lines
            continue
        left = len(part.lines) - (share - 1)
        lines += [*part.lines[: share - 1], _mark(f"  … {_count(left)} more; v shows all")]
        unread += left
    if told:
        lines.append(_mark(f"{', '.join(told)}: in the changes above; v shows all"))
    if len(lines) > max(height, _FEWEST_LINES):
        kept = max(height, _FEWEST_LINES) - 1
        left = len(lines) - kept
        return FittedQuestion([*lines[:kept], _mark(f"… {_count(left)} more; v shows all")], unread + left)
    return FittedQuestion(lines, unread)


def question_lines(document: QuestionDocument, width: int) -> list[Text]:
    """Return the whole question, in lines no longer than `width`."""
    return [*_head(document, width), *(line for part in _parts(document, width) for line in part.lines)]


def question_text(document: QuestionDocument, width: int) -> str:
    """Return the whole question as plain text."""
    return plain_text(question_lines(document, width))


def plain_text(lines: Iterable[Text]) -> str:
    """Return lines as plain text, for a pager."""
    return "\n".join(line.plain.rstrip() for line in lines)


def background_lines(document: QuestionDocument, width: int, *, is_short: bool) -> Iterator[Text]:
    """Yield the lines about task, words and precedents; where it `is_short`, a few of each."""
    question, around = document.question, document.background
    if around is None:
        return
    begun, most = around.begun, 1 if is_short else None
    who = f", started by {visible_line(begun.started_by, 80)}" if begun.started_by else ""
    about = question.task or begun.task
    if about or who:
        task = Text.assemble((visible_line(about, 300) or visible_line(begun.worker, 80), "bold"), who)
        yield from _named("task", task, width, most)
    yield from _said(around, width, is_short=is_short)
    if around.precedents.newest or around.precedents.waiting:
        yield from _named("like it", _tally(question.request.tool, around.precedents), width, most)
        newest = around.precedents.newest
        unlike = [one for one in newest if one.verdict and one.verdict.decision is not DecisionKind.APPROVE]
        for one in unlike[:1] if is_short else newest:
            if one.verdict is not None:
                note = f": {visible_line(one.verdict.note, 200)}" if one.verdict.note else ""
                note += "; not carried out" if one.again else ""
                words = Text.assemble(
                    f"{one.id} ",
                    (visible_line(answer_words(one.verdict), 120), _DECISION_STYLES[one.verdict.decision]),
                    f" {ago(one.verdict.at)}{note}",
                    (f" ({visible_line(one.request.summary, 200)})", "dim"),
                )
                yield from indented(words, width, 4, most)


def _said(around: Background, width: int, *, is_short: bool) -> Iterator[Text]:
    words = around.words
    if words is None:
        return
    turns = "1 turn" if words.turns_before == 1 else f"{words.turns_before} turns"
    before = f" {turns} before" if words.turns_before else ""
    text = "\n".join(filter(str.strip, words.text.splitlines())) if is_short else words.text
    said = Text(visible_block(remove_keys(text)), style="italic")
    yield from _named(f"said{before}", said, width, _SHORT_LINES if is_short else None)


def _tally(tool: str, precedents: Precedents) -> Text:
    """Return the number of decisions on calls like this, and where these are."""
    place = precedents.place
    where = f" in {place}" if place.startswith("/") else f" {place}" if place not in ("", tool) else ""
    counts = [Text(f"{count} {kind.done}", style=_DECISION_STYLES[kind]) for kind, count in precedents.counts.items()]
    if precedents.undone:
        counts.append(Text(f"{precedents.undone} not carried out"))
    if precedents.waiting:
        counts.append(Text(f"{precedents.waiting} more {'waits' if precedents.waiting == 1 else 'wait'}"))
    return Text(", ").join(counts).append(f" ({visible_line(tool + where, 120)})", style="dim")


def _head(document: QuestionDocument, width: int, others: int | None = None) -> list[Text]:
    """Return the lines above the call, short ones where the number of `others` that wait is to be told."""
    question, request = document.question, document.question.request
    where = (question.id, request.tool, request.place, f"run {question.run}")
    title = Text(" · ".join(visible_line(word, 80) for word in where), style="bold")
    more = f" {others:,} more wait{'s' if others == 1 else ''}" if others else ""
    title.truncate(max(width - len(more) - 2, 1), overflow="ellipsis")
    rule = "─" * max(min(width, _MOST_COLUMNS) - cell_len(title.plain) - 1 - len(more), 0)
    lines = [Text.assemble(title, " ", (rule, "yellow"), more)]
    lines += background_lines(document, width, is_short=others is not None)
    # Of a Python tool the summary is its name and its arguments, which stand below.
    if others is None or not request.summary.startswith(f"{request.tool} {{"):
        lines += wrapped(Text(visible_line(request.summary), style="bold"), width)
    if request.reason:
        lines += wrapped(Text(visible_line(request.reason), style="dim"), width)
    for fact in document.facts:
        lines += wrapped(Text(visible_line(fact, 300), style="yellow"), width)
    return lines


def _parts(document: QuestionDocument, width: int, *, is_short: bool = False) -> list[_Part]:
    """Return the whole call, what it changes first; where it `is_short`, of digests the beginning."""
    view = document.view
    if view is not None:
        return [
            _Part(
                view.noun, [Text(one) if isinstance(one, str) else one for one in view.lines(document.question, width)]
            )
        ]
    return [one for part in document.parts for one in _lines_of(part, width, is_short=is_short)]


def _lines_of(part: CallPart, width: int, *, is_short: bool) -> Iterator[_Part]:
    name = visible_line(part.name, 80)
    if part.kind == "diff":
        yield _Part("changes", [_label("changes"), *indented(_diff(part.value), width, _INDENT)])
    elif part.kind == "argument":
        note = " (a new file)" if part.is_new else ""
        yield _Part(name, _argument(part.name, part.value, width, note), is_told=part.is_told)
    else:
        label = f"file {part.name}" if part.kind == "file" else part.name
        facts = {one: _cut_digest(value) if is_short else value for one, value in part.value.items()}
        texts = {one: value for one, value in facts.items() if isinstance(value, str) and "\n" in value}
        if rest := {one: value for one, value in facts.items() if one not in texts}:
            yield _Part("file" if part.kind == "file" else name, _argument(label, rest, width))
        for one, text in texts.items():
            yield _Part(f"{name}: {one}", _argument(f"{label}: {one}", text, width))


def _argument(name: str, value: Any, width: int, note: str = "") -> list[Text]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(text) > _SHORT_CHARS:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    label = _label(visible_line(name, 80), note)
    if "\n" in text or len(text) > _SHORT_CHARS:
        return [label, *marked(Text(visible_source(text)), width, _INDENT)]
    first, *others = wrapped(Text.assemble(label, f" {value_line(text)}"), width - _INDENT)
    for line in others:
        line.pad_left(_INDENT)
    return [first, *others]


def _cut_digest(value: Any) -> Any:
    return f"{value[:_DIGEST_CHARS]}…" if isinstance(value, str) and _DIGEST.fullmatch(value) else value


def _named(name: str, told: Text, width: int, most: int | None) -> list[Text]:
    """Return `told` behind its name, in at most so many lines; those after the first are marked."""
    first, *others = indented(Text.assemble((f"{name}: ", "dim"), told), width - 2 - len(_MARK), 0, most)
    return [Text.assemble("  ", first), *(_marked(2, line) for line in others)]


def _marked(columns: int, line: Text) -> Text:
    shown = Text.assemble(" " * columns, _MARK, line)
    shown.rstrip()
    return shown


def _label(name: str, note: str = "") -> Text:
    return Text.assemble((f"  {name}", "bold"), (note, "green"), (":", "bold"))


def _mark(words: str) -> Text:
    return Text(f"  {words}", style="italic cyan")


def _count(lines: int) -> str:
    return f"{lines:,} {'line' if lines == 1 else 'lines'}"


def _diff(diff: str) -> Text:
    text = Text()
    for line in visible_source(diff).splitlines(keepends=True):
        text.append(line, style=_DIFF_STYLES.get(line[:1], ""))
    text.rstrip()
    return text
