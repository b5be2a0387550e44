"""Comparison of two experiments on the terminal: verdicts in words, figures as a table, the worst cases first. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from llm_do_temporal.cli.reports.evaluations.figures import delta_text, mean_text, metric_texts
from llm_do_temporal.cli.tables import format_table
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.evaluations.comparison import SHOWN_DIGITS, ComparedExperiments
from llm_do_temporal.messages.experiments.results import ExperimentRecord

_METRICS = ("METRIC", "B IS", "A", "B", "DELTA", "95 %", "W/T/L", "P")
_SPARED: tuple[tuple[str, ...], ...] = ((), ("95 %",), ("95 %", "P"), ("95 %", "P", "A", "B"))
"""Columns that a narrow terminal goes without, by turns: the sentences below the table have them."""
_CASES = ("CASE", "METRIC", "A", "B", "DELTA")
_WIDTH = 100
"""Characters at which sentences are broken where the output is no terminal."""


def comparison_lines(compared: ComparedExperiments, width: int | None, *, worst: int) -> list[str]:
    """Return the lines, tables cut at `width` characters; None leaves them whole. `worst` cases of a metric are shown.

    Table rows are of the second experiment, B, against the first one, A.
    """
    lines = [*_wrapped(_head("A", compared.one), width, ""), *_wrapped(_head("B", compared.other), width, "")]
    for words in compared.differences:
        lines += _wrapped(words, width, "  differs: ")
    lines += ["", *_metric_table(compared, width)]
    lines += [
        line
        for metric in compared.comparison.metrics
        for line in _wrapped(metric.sentence, width, f"{metric.metric}: ")
    ]
    for words in compared.comparison.sentences:
        lines += _wrapped(words, width, "")
    lines += ["", "beside, and no part of the verdicts:"]
    for amount in compared.comparison.amounts:
        lines += _wrapped(amount.sentence, width, f"  {amount.name}: ")
    return [*lines, *_worst(compared, width, worst)]


def _head(letter: str, record: ExperimentRecord) -> str:
    times = "" if record.spec.repeats == 1 else f", {record.spec.repeats} times each"
    version = f"@{record.worker_version[:8]}" if record.worker_version else ""
    return visible_line(
        f"{letter}  {record.name} {digits(record)}  {record.started_at:%Y-%m-%d %H:%M}  "
        f"{record.spec.worker}{version}  {record.model or 'model not known'}  {len(record.spec.cases):,} cases{times}"
        + ("" if record.state == "completed" else f"  ({record.state})")
    )


def digits(record: ExperimentRecord) -> str:
    """Return the beginning of the digest of an experiment, by which people name it."""
    return record.digest.rpartition("-")[2][:SHOWN_DIGITS]


def _metric_table(compared: ComparedExperiments, width: int | None) -> list[str]:
    rows = [(metric.metric, *metric_texts(metric)) for metric in compared.comparison.metrics]
    if not rows:
        return ["no metric is there to compare: no case has a score"]
    table = _without((), rows)
    for left_out in _SPARED:
        table = _without(left_out, rows)
        if width is None or max(map(len, format_table(table[0], table[1:], None))) <= width:
            break
    return [*format_table(table[0], table[1:], width), ""]


def _without(left_out: tuple[str, ...], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return header and rows without some columns."""
    kept = [place for place, name in enumerate(_METRICS) if name not in left_out]
    return [[row[place] for place in kept] for row in (_METRICS, *rows)]


def _worst(compared: ComparedExperiments, width: int | None, most: int) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for metric in compared.comparison.metrics:
        lost = [delta for delta in metric.deltas if delta.delta < 0]
        left_out += max(0, len(lost) - most)
        for delta in lost[:most]:
            shown = "other label" if metric.kind == "labels" else delta_text(delta.delta, metric.kind)
            means = mean_text(delta.one, metric.kind), mean_text(delta.other, metric.kind)
            rows.append((delta.case, metric.metric, *means, shown))
    if not rows:
        yield from ("", "no case got worse")
        return
    yield from ("", "cases that got worse:", *format_table(_CASES, rows, width))
    if left_out:
        yield from _wrapped(f"{left_out:,} more; --worst N shows more of each metric, --json all", width, "")


def _wrapped(words: str, width: int | None, indent: str) -> list[str]:
    text = visible_line(f"{indent}{words}")
    return textwrap.wrap(text, max(width or _WIDTH, 20), subsequent_indent="    ", drop_whitespace=True) or [text]
