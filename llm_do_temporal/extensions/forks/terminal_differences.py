"""Difference of two runs on the terminal, side by side as far as the width allows, and as JSON.

Pure but for `print_difference`. Everything that a model wrote is cut, and made visible.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.text import Text

from llm_do_temporal.cli.output import cost_json, dump_json, usage_json
from llm_do_temporal.cli.reports.show import price
from llm_do_temporal.cli.tables import clock, width_of
from llm_do_temporal.cli.terminal.question import wrapped
from llm_do_temporal.cli.text import name_line, visible_line, visible_source
from llm_do_temporal.extensions.forks.client_differences import (
    Divergence,
    FileAccount,
    FilePair,
    InvocationAccount,
    InvocationPair,
    RunAccount,
    RunDifference,
)
from llm_do_temporal.redaction.configured_keys import remove_keys

_PIPE_WIDTH = 160
_NARROW = 72
"""Width below which the two sides stand one below the other."""
_MOST_LINES = 16
"""Lines of one value that are shown."""
_MOST_DIVERGENCES = 10
_MOST_INVOCATIONS = 40
_MOST_FILES = 40
_AROUND = 2
"""Lines that both have which are shown around those that differ."""
_NAME_WIDTH = 11
_NAME_CHARS = 200
_STYLES = {"+": "green", "-": "red"}
_ALL = "--json has all of it"


def print_difference(found: RunDifference) -> None:
    """Print the difference on stdout, for a person."""
    width = width_of(sys.stdout) or _PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in difference_lines(found, width):
        console.print(line, no_wrap=True, crop=False)


def difference_lines(difference: RunDifference, width: int) -> list[Text]:
    """Return the lines of the report, none wider than `width` columns."""
    lines = _report(difference, width)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _report(difference: RunDifference, width: int) -> list[Text]:
    lines = [*_head(difference, width), Text()]
    if difference.is_same:
        return [*lines, Text("the same: every turn, call and decision, the answer and the files", style="bold")]
    for number, one in enumerate(difference.divergences[:_MOST_DIVERGENCES]):
        lines += [*_divergence(one, width, is_first=number == 0), Text()]
    if len(difference.divergences) > _MOST_DIVERGENCES:
        lines += [Text(f"{len(difference.divergences) - _MOST_DIVERGENCES} more invocations differ; {_ALL}"), Text()]
    lines += [*_invocations(difference.pairs, width), *_answers(difference, width)]
    return [*lines, *_files(difference, width)]


def difference_json(difference: RunDifference) -> dict[str, Any]:
    """Return the object of `diff --json`."""
    return {
        "type": "run.difference",
        "same": difference.is_same,
        "first": _run_json(difference.first),
        "second": _run_json(difference.second),
        "same_output": difference.same_output,
        "divergences": [
            {
                "kind": one.kind,
                "path": one.path or None,
                "other_path": one.other_path or None,
                "turn": one.turn,
                "what": one.what,
                "first": one.first,
                "second": one.second,
            }
            for one in difference.divergences
        ],
        "invocations": [
            {"same": pair.divergence is None, "first": _side_json(pair.first), "second": _side_json(pair.second)}
            for pair in difference.pairs
        ],
        "files": [_file_json(one) for one in difference.files],
        "same_files": difference.same_files,
    }


def aside_lines(run: RunAccount, patch: str) -> list[str]:
    """Return the files that a run has changed aside, and the command that makes a patch of them."""
    if run.problem:
        return [f"its changes cannot be told: {run.problem}"]
    if not run.files:
        return ["it has changed no files"]
    lines = ["changed aside, and not in the workshop's files:"]
    for one in run.files[:_MOST_FILES]:
        sign = "-" if one.now is None else "+" if one.base is None else "~"
        lines.append(f"  {sign} {name_line(one.path)}")
    if len(run.files) > _MOST_FILES:
        lines.append(f"  … {len(run.files) - _MOST_FILES} more")
    return [*lines, f"as a patch: {patch}"]


def side_by_side(first: str, second: str, width: int, most: int = _MOST_LINES) -> list[Text]:
    """Return two texts beside each other, lines that both have only around those that differ, at most so many."""
    if width < _NARROW:
        return [*_stacked("-", first, width, most), *_stacked("+", second, width, most)]
    column = (width - 3) // 2
    lines: list[Text] = []
    old, new = _lines_of(first), _lines_of(second)
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND))
    for number, group in enumerate(groups):
        if number or group[0][1]:
            lines.append(Text("  …", style="dim"))
        for tag, i1, i2, j1, j2 in group:
            for left, right in zip_longest(old[i1:i2], new[j1:j2]):
                styles = ("", "") if tag == "equal" else (_STYLES["-"], _STYLES["+"])
                lines += _row(left, right, styles, column)
    if groups and groups[-1][-1][2] < len(old):
        lines.append(Text("  …", style="dim"))
    return _cut(lines, most)


def _head(difference: RunDifference, width: int) -> list[Text]:
    runs = difference.first, difference.second
    rows: list[tuple[str, Sequence[str]]] = [
        ("run", [one.run for one in runs]),
        ("worker", [one.worker for one in runs]),
        ("status", [one.status for one in runs]),
        ("turns", [_turns(one) for one in runs]),
        ("tokens", [f"{one.usage.input_tokens:,} in, {one.usage.output_tokens:,} out" for one in runs]),
        ("cost", [_cost(one) for one in runs]),
        ("questions", [str(one.questions) for one in runs]),
        ("time", ["-" if one.seconds is None else clock(one.seconds) for one in runs]),
    ]
    column = max((width - _NAME_WIDTH - 3) // 2, 8)
    lines: list[Text] = []
    for name, values in rows:
        differs = values[0] != values[1] and name in ("worker", "status", "turns", "questions")
        cells = [_cell(visible_line(value, _NAME_CHARS), column) for value in values]
        line = Text.assemble((name.ljust(_NAME_WIDTH), "dim"), cells[0].ljust(column), "   ", cells[1].rstrip())
        line.stylize("bold" if name == "run" or differs else "", _NAME_WIDTH)
        line.rstrip()
        lines.append(line)
    problems = dict.fromkeys(one.problem for one in runs if one.problem)
    return [*lines, *(part for one in problems for part in wrapped(Text(one, style="yellow"), width))]


def _divergence(one: Divergence, width: int, *, is_first: bool) -> list[Text]:
    order = "first difference" if is_first else "then"
    if one.kind == "only":
        side = "right" if one.first is None else "left"
        title = f"{order}: {one.what} {one.place} is on the {side} alone"
    else:
        title = f"{order}: {one.place}, {one.what}"
    style = "bold yellow" if is_first else "bold"
    lines = wrapped(Text(visible_line(title, _NAME_CHARS * 2), style=style), width)
    # What follows is mostly the same change, seen from further up.
    return [*lines, *side_by_side(_as_text(one.first), _as_text(one.second), width, _MOST_LINES if is_first else 6)]


def _invocations(pairs: Sequence[InvocationPair], width: int) -> list[Text]:
    if len(pairs) == 1:
        return []
    lines = [Text("invocations", style="bold")]
    for pair in pairs[:_MOST_INVOCATIONS]:
        sides = [one for one in (pair.first, pair.second) if one is not None]
        paths = " / ".join(dict.fromkeys(one.path for one in sides))
        turns = " | ".join(map(_invocation_turns, (pair.first, pair.second)))
        same = "the same" if pair.first and pair.second else "its result was reused"
        told = same if pair.divergence is None else _short(pair.divergence)
        line = Text(_cell(visible_line(f"  {paths}  {turns}  {told}", _NAME_CHARS * 2), width))
        line.stylize("" if pair.divergence is None else "yellow")
        lines.append(line)
    if len(pairs) > _MOST_INVOCATIONS:
        lines.append(Text(f"  {len(pairs) - _MOST_INVOCATIONS} more; {_ALL}", style="dim"))
    return [*lines, Text()]


def _answers(difference: RunDifference, width: int) -> list[Text]:
    first, second = (one.error or one.output for one in (difference.first, difference.second))
    if difference.same_output:
        return [Text("answer: the same", style="bold"), Text()]
    return [Text("answer", style="bold"), *side_by_side(_as_text(first), _as_text(second), width), Text()]


def _files(difference: RunDifference, width: int) -> list[Text]:
    if not difference.files and not difference.same_files:
        return [Text("files: none was changed", style="bold")]
    same = f", {difference.same_files} the same" if difference.same_files else ""
    lines = [Text(f"files: {len(difference.files)} differ{same}", style="bold")]
    for one in difference.files:
        only = ", on the left alone" if one.second is None else ", on the right alone" if one.first is None else ""
        said = visible_line(f" ({one.problem})" if one.problem else "", _NAME_CHARS)
        lines += wrapped(Text(f"  {name_line(one.path)}{only}{said}", style="yellow"), width)
        shown = [line for hunk in one.lines for line in (f"@ line {hunk.old_start + 1}", *hunk.lines)]
        styled = ((visible_line(line.rstrip("\n")), _STYLES.get(line[:1], "dim")) for line in shown)
        lines += _cut([Text(_cell(f"    {line}", width), style=style) for line, style in styled], _MOST_LINES * 2)
    return lines


def _row(left: str | None, right: str | None, styles: tuple[str, str], column: int) -> Iterator[Text]:
    sides = [
        [] if side is None else wrapped(Text(side, style=style), column - 2) or [Text()]
        for side, style in zip((left, right), styles, strict=True)
    ]
    for mine, theirs in zip_longest(*sides):
        cells = [Text() if cell is None else cell.copy() for cell in (mine, theirs)]
        cells[0].pad_right(max(column - 2 - cells[0].cell_len, 0))
        line = Text.assemble("  ", cells[0], " │ ", cells[1])
        line.rstrip()
        yield line


def _stacked(sign: str, text: str, width: int, most: int) -> list[Text]:
    lines = [
        Text.assemble((f"{sign} ", _STYLES[sign]), line)
        for part in _lines_of(text)
        for line in wrapped(Text(part, style=_STYLES[sign]), width - 2)
    ]
    return _cut(lines, most)


def _cut(lines: list[Text], most: int) -> list[Text]:
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], Text(f"  … {rest} more lines; {_ALL}", style="dim")]


def _lines_of(text: str) -> list[str]:
    # A value of a megabyte has far more lines than are shown, and comparing them takes their square.
    return visible_source(remove_keys(text)[:20_000]).splitlines()[:400]


def _as_text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else dump_json(value, pretty=True)


def _cell(text: str, width: int) -> str:
    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain


def _turns(run: RunAccount) -> str:
    saved = run.usage.saved
    return f"{run.usage.requests}" + (f", and {saved.requests} reused" if saved is not None else "")


def _invocation_turns(one: InvocationAccount | None) -> str:
    if one is None:
        return "-"
    turns = len(one.turns)
    return f"{turns} {'turn' if turns == 1 else 'turns'}" + (f", {one.reused} reused" if one.reused else "")


def _cost(run: RunAccount) -> str:
    saved = run.usage.saved
    spent = price(run.usage)
    return spent if saved is None or not saved.cost_usd else f"{spent}, saved ${saved.cost_usd:.4f}"


def _short(one: Divergence) -> str:
    if one.kind == "only":
        return "on the right alone" if one.first is None else "on the left alone"
    return f"{one.what}{f', turn {one.turn}' if one.turn else ''}"


def _run_json(run: RunAccount) -> dict[str, Any]:
    return {
        "run": run.run,
        "worker": run.worker,
        "status": run.status,
        "output": run.output,
        "error": run.error or None,
        "questions": run.questions,
        "duration_ms": None if run.seconds is None else round(run.seconds * 1000),
        "usage": usage_json(run.usage),
        **cost_json(run.usage),
        "files_problem": run.problem or None,
    }


def _side_json(one: InvocationAccount | None) -> dict[str, Any] | None:
    if one is None:
        return None
    known = {"path": one.path, "worker": one.definition, "turns": len(one.turns), "reused": one.reused}
    return known | {"usage": usage_json(one.usage), **cost_json(one.usage)}


def _file_json(one: FilePair) -> dict[str, Any]:
    def side(file: FileAccount | None) -> dict[str, Any] | None:
        if file is None:
            return None
        now = file.now
        state = None if now is None else {"sha256": now.sha256 or None, "bytes": now.bytes, "kind": now.kind}
        return {"by": file.by, "now": state}

    return {
        "path": one.path,
        "first": side(one.first),
        "second": side(one.second),
        "lines": ["".join(hunk.lines) for hunk in one.lines],
        "problem": one.problem or None,
    }
