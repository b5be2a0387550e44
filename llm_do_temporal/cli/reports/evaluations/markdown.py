"""Experiment as Markdown for a pull request: the verdict of the gate first, then what got worse. Pure.

Words of models and names of cases stand in code spans, in which nobody is mentioned and nothing is a link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llm_do_temporal.cli.reports.evaluations.comparison import digits
from llm_do_temporal.cli.reports.evaluations.figures import delta_text, mean_text, metric_texts
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.evaluations.comparison import ComparedExperiments, compare_records
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.experiments.results import ExperimentRecord
from llm_do_temporal.policy.evaluations.outcomes import figures

MOST_CASES = 20
"""Cases that got worse, and errors, that are listed; a comment of a pull request has an end."""
_REASON_CHARS = 200


def gate_markdown(record: ExperimentRecord, before: ExperimentRecord | None = None) -> str:
    """Return the text; `before` is the experiment that it is compared with, None: none."""
    verdict = record.gate
    word = "passed" if verdict.passed else "failed"
    lines = [f"## Evaluation {code(record.name)}: gate {word}", ""]
    lines += [f"- {'✅' if one.passed else '❌'} {code(one.sentence)}" for one in verdict.verdicts]
    if not verdict.verdicts:
        lines.append("No thresholds are set, and no run ended in an error.")
    if before is not None:
        lines += ["", *_compared(record, before)]
    lines += ["", *_figures(record), *_errors(record)]
    lines += ["", f"<sub>{code(record.workflow)} · {code(record.model or 'model not known')}</sub>", ""]
    return "\n".join(lines)


def comparison_markdown(compared: ComparedExperiments) -> str:
    """Return the comparison alone."""
    return "\n".join([*_comparison(compared), ""])


def _compared(record: ExperimentRecord, before: ExperimentRecord) -> list[str]:
    try:
        compared = compare_records(before, record)
    except UsageError as error:
        return [f"Not compared with {code(digits(before))}: {code(error.message)}"]
    return list(_comparison(compared))


def _comparison(compared: ComparedExperiments) -> Iterator[str]:
    one, other = compared.one, compared.other
    yield f"### {code(digits(other))} (B) against {code(digits(one))} (A)"
    yield ""
    lost = compared.lost
    if lost:
        yield f"{len(lost):,} {'score' if len(lost) == 1 else 'scores'} got worse:"
        yield ""
        rows = [
            (
                code(delta.case),
                code(metric.metric),
                mean_text(delta.one, metric.kind),
                mean_text(delta.other, metric.kind),
                "other label" if metric.kind == "labels" else delta_text(delta.delta, metric.kind),
            )
            for metric, delta in lost[:MOST_CASES]
        ]
        yield from table(("case", "metric", "A", "B", "difference"), rows)
        if len(lost) > MOST_CASES:
            yield f"\n… and {len(lost) - MOST_CASES:,} more."
    else:
        yield "No score got worse."
    yield ""
    compared_metrics = [(code(metric.metric), metric_texts(metric)) for metric in compared.comparison.metrics]
    rows = [
        (name, texts.verdict, texts.one, texts.other, texts.interval, texts.counts, texts.p)
        for name, texts in compared_metrics
    ]
    yield from table(("metric", "B is", "A", "B", "95 % of the difference", "won/tied/lost", "p"), rows)
    yield ""
    for words in compared.comparison.sentences:
        yield f"- {code(words)}"
    for amount in compared.comparison.amounts:
        yield f"- {amount.name}, no part of the verdicts: {code(amount.sentence)}"


def _figures(record: ExperimentRecord) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for name, found in figures(record.outcomes).items():
        if found.kind == "labels":
            mean = ", ".join(f"{code(label)} {count}" for label, count in list(found.labels.items())[:5])
        else:
            mean = mean_text(found.mean, found.kind)
        interval = "-"
        if found.low is not None and found.high is not None:
            interval = f"{mean_text(found.low, found.kind)} to {mean_text(found.high, found.kind)}"
        rows.append((code(name), mean, interval, str(found.cases), str(found.missing)))
    if rows:
        yield from table(("metric", "mean", "95 %", "cases", "without it"), rows)


def _errors(record: ExperimentRecord) -> Iterator[str]:
    failed = [(result, result.facts.error) for result in record.results if result.facts.error is not None]
    if failed:
        yield ""
        yield f"{len(failed):,} {'run' if len(failed) == 1 else 'runs'} ended in an error, which is no wrong answer:"
        yield ""
    for result, error in failed[:MOST_CASES]:
        words = f"{error.type}: {error.message}"[:_REASON_CHARS]
        yield f"- {code(result.case)}, repeat {result.repeat}: {code(words)}"
    if len(failed) > MOST_CASES:
        yield f"- … and {len(failed) - MOST_CASES:,} more"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of cells that are Markdown."""
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def code(words: str) -> str:
    """Return the words as a code span on one line, fit for a cell of a table."""
    # Nothing escapes a bar within a code span of a cell but for a backslash, which is itself text after another one.
    text = visible_line(words).replace("|", "¦")
    fence = "`"
    while fence in text:
        fence += "`"
    is_padded = text[:1] in ("`", " ") or text[-1:] in ("`", " ") or not text
    return f"{fence} {text} {fence}" if is_padded else f"{fence}{text}{fence}"
