"""Picture of a question to a person: the asking worker, the whole call, and the change it would make.

Pure. Texts of a model are indented, so that none of them can pass for the prompt. Nothing is cut for good: what a
screen has no room for is counted, and has to be read before anybody agrees.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from llm_do_temporal.cli.terminal.pictures.review import check_lines, counts_words
from llm_do_temporal.cli.terminal.pictures.surroundings import Surroundings, surrounding_lines
from llm_do_temporal.cli.terminal.pictures.text_lines import hanging, indented, wrapped
from llm_do_temporal.cli.text import value_line, visible_line, visible_source
from llm_do_temporal.client.client import Question
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.ui.content.call_parts import only_adds, tells_all

_INDENT = 4
_SHORT_CHARS = 200
"""Longer values get lines of their own."""
_MOST_COLUMNS = 200
"""Longest rule: a line in a pipe has no end."""
_FEWEST_LINES = 3
"""Lines that every part of a call gets on a screen, if it has as many: its name, its beginning, and what is left."""
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_DIGEST, _DIGEST_CHARS = re.compile(r"[0-9a-f]{64}"), 12
_FILE_TEXTS = frozenset({"content", "old_text", "new_text"})
"""Arguments of the file tools whose whole effect a difference shows."""


@dataclass(frozen=True)
class FittedQuestion:
    """Question as far as a screen has room for it."""

    lines: list[Text]
    unread: int
    """Lines of the call that are not among them, and that nothing among them tells."""


@dataclass(frozen=True)
class _CallPart:
    """Part of a call, in lines."""

    name: str
    lines: list[Text]
    is_told: bool = False
    """Whether a difference above shows all that it changes."""


def fit_question(
    pending: Question, around: Surroundings | None, width: int, height: int, *, others: int = 0
) -> FittedQuestion:
    """Return the question in at most `height` lines of this width, long parts with their beginnings.

    Its first line says that `others` wait, too.
    """
    head, parts = _head(pending, around, width, others), _parts(pending, width, is_short=True)
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


def question_lines(pending: Question, around: Surroundings | None, width: int) -> list[Text]:
    """Return the whole question, in lines no longer than `width`."""
    parts = _parts(pending, width)
    return [*_head(pending, around, width), *(line for part in parts for line in part.lines)]


def question_text(pending: Question, around: Surroundings | None, width: int) -> str:
    """Return the whole question as plain text."""
    return "\n".join(line.plain.rstrip() for line in question_lines(pending, around, width))


def _head(pending: Question, around: Surroundings | None, width: int, others: int | None = None) -> list[Text]:
    """Return the lines above the call, short ones where the number of `others` that wait is to be told."""
    request = pending.request
    where = (pending.id, request.tool, request.place, f"run {pending.run}")
    title = Text(" · ".join(visible_line(word, 80) for word in where), style="bold")
    more = f" {others:,} more wait{'s' if others == 1 else ''}" if others else ""
    title.truncate(max(width - len(more) - 2, 1), overflow="ellipsis")
    rule = "─" * max(min(width, _MOST_COLUMNS) - cell_len(title.plain) - 1 - len(more), 0)
    lines = [Text.assemble(title, " ", (rule, "yellow"), more)]
    if around is not None:
        lines += surrounding_lines(pending, around, width, is_short=others is not None)
    # Of a Python tool the summary is its name and its arguments, which stand below.
    if others is None or not request.summary.startswith(f"{request.tool} {{"):
        lines += wrapped(Text(visible_line(request.summary), style="bold"), width)
    if request.reason:
        lines += wrapped(Text(visible_line(request.reason), style="dim"), width)
    for line in _circumstances(pending):
        lines += wrapped(Text(line, style="yellow"), width)
    return lines


def _parts(pending: Question, width: int, *, is_short: bool = False) -> list[_CallPart]:
    """Return the whole call, what it changes first; where it `is_short`, of digests the beginning."""
    request, parts = pending.request, list[_CallPart]()
    if request.review is not None:
        counts, check = request.review.section.counts, request.review.check
        told = [Text(f"  {counts_words(counts)}"), *check_lines(check, width)]
        return [_CallPart("review", [*told, _mark(f"`review {visible_line(pending.run, 80)}` shows them")])]
    diff = (request.diff or "") if pending.args == request.args else ""
    is_file = request.tool in PATH_TOOLS
    new = " (a new file)" if is_file and diff.startswith("--- /dev/null\n") else ""
    is_compared = bool(diff) and not only_adds(diff)
    if is_compared:
        parts.append(_CallPart("changes", [_label("changes"), *indented(_diff(diff), width, _INDENT)]))
    for name, value in pending.args.items():
        is_text = name in _FILE_TEXTS
        lines = _argument(name, value, width, new if is_text else "")
        parts.append(
            _CallPart(visible_line(name, 80), lines, is_told=is_text and is_file and is_compared and tells_all(diff))
        )
    for file in request.attachments:
        digest = _cut_digest(file.sha256) if is_short else file.sha256
        facts = {"bytes": file.bytes, "media_type": file.media_type, "sha256": digest}
        parts.append(_CallPart("file", _argument(f"file {file.path}", facts, width)))
    shown = {json.dumps(value, sort_keys=True) for value in (request.args, *request.args.values(), request.diff)}
    for use in request.capabilities:
        extra = {name: value for name, value in use.payload.items() if json.dumps(value, sort_keys=True) not in shown}
        if is_short:
            extra = {name: _cut_digest(value) for name, value in extra.items()}
        if extra:
            parts.append(_CallPart(use.name, _argument(use.name, extra, width)))
    return parts


def _circumstances(pending: Question) -> list[str]:
    """Return the lines about approvers, votes and deadline."""
    request, lines = pending.request, list[str]()
    if request.approvers:
        lines.append(f"may be decided by {visible_line(', '.join(request.approvers), 200)}")
    if request.quorum > 1:
        names = ", ".join(vote.by or "somebody" for vote in pending.votes)
        agreed = f": {visible_line(names, 200)}" if names else ""
        lines.append(f"{len(pending.votes)} of {request.quorum} people have agreed{agreed}")
    if pending.votes and pending.args != request.args:
        lines.append("the arguments are those that they have changed it to, not what the model asked for")
    if request.deadline is not None:
        lines.append(f"without an answer until {request.deadline:%Y-%m-%d %H:%M:%S} UTC: {request.on_timeout}")
    return lines


def _argument(name: str, value: Any, width: int, note: str = "") -> list[Text]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(text) > _SHORT_CHARS:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    label = _label(visible_line(name, 80), note)
    if "\n" not in text and len(text) <= _SHORT_CHARS:
        return hanging(Text.assemble(label, f" {value_line(text)}"), width, _INDENT)
    return [label, *indented(Text(visible_source(text)), width, _INDENT)]


def _cut_digest(value: Any) -> Any:
    return f"{value[:_DIGEST_CHARS]}…" if isinstance(value, str) and _DIGEST.fullmatch(value) else value


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
