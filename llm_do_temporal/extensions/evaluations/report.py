"""Experiments written down: for the terminal, as Markdown of a pull request, and as JUnit XML. Pure.

Words of models and names of cases stand in code spans of Markdown, in which nobody is mentioned and nothing is a link.
Of JUnit XML the gate decides what fails: a suite of thresholds comes first. Cases are a suite of their own, in which a
case fails only where the evaluation has no thresholds; a run that ended in an error is an error either way.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from xml.etree import ElementTree as Xml

from llm_do_temporal.cli.output import truncated_json
from llm_do_temporal.cli.tables import format_table
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.record.results import ResultRow, csv_text
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.evaluations.client import SHOWN_DIGITS, ComparedExperiments, compare_records
from llm_do_temporal.extensions.evaluations.messages import ExperimentRecord, cost_of
from llm_do_temporal.extensions.evaluations.policy.figures import (
    CaseDelta,
    MetricComparison,
    MetricKind,
    Verdict,
    figures,
    known_sum,
    scores_by_metric,
)
from llm_do_temporal.extensions.evaluations.policy.scores import CaseResult, EvaluationCase, json_text

_VERDICTS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "no_difference_shown": "no difference shown",
    "too_few": "too few cases to tell",
    "not_compared": "labels, not tested",
}
NONE = "-"
_Text = Callable[[float | None, MetricKind], str]


def mean_text(value: float | None, kind: MetricKind) -> str:
    """Return a mean: of pass and fail as a share; NONE where it is not known."""
    if value is None:
        return NONE
    return f"{100 * value:.1f} %" if kind == "passes" else f"{value:.3g}"


def delta_text(value: float | None, kind: MetricKind) -> str:
    """Return a difference with its sign: of pass and fail in percentage points; NONE where it is not known."""
    if value is None:
        return NONE
    return f"{100 * value:+.1f} pt" if kind == "passes" else f"{value:+.3g}"


def interval_text(low: float | None, high: float | None, kind: MetricKind, text: _Text) -> str:
    """Return an interval with its ends written by `text`; NONE where there is none."""
    return NONE if low is None or high is None else f"{text(low, kind)} to {text(high, kind)}"


class MetricTexts(NamedTuple):
    """Figures of a compared metric; `one` and `other` are the means of both sides."""

    verdict: str
    one: str
    other: str
    delta: str
    interval: str
    counts: str
    """Wins, ties and losses, like `3/10/1`."""
    p: str


def metric_texts(metric: MetricComparison) -> MetricTexts:
    """Return all figures of a compared metric."""
    p = metric.adjusted_p
    return MetricTexts(
        _VERDICTS[metric.verdict],
        mean_text(metric.one, metric.kind),
        mean_text(metric.other, metric.kind),
        delta_text(metric.delta, metric.kind),
        interval_text(metric.low, metric.high, metric.kind, delta_text),
        f"{metric.wins}/{metric.ties}/{metric.losses}",
        NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
    )


def figure_rows(record: ExperimentRecord, label: Callable[[str], str], most: int | None) -> Iterator[tuple[str, ...]]:
    """Yield name, mean, interval, and cases with and without, of each metric; of labels `most` are told, None: all."""
    for name, found in figures(record.results).items():
        labels = [f"{label(one)} {count}" for one, count in found.labels.items()]
        mean = ", ".join(labels[:most]) if found.kind == "labels" else mean_text(found.mean, found.kind)
        interval = interval_text(found.low, found.high, found.kind, mean_text)
        yield name, mean, interval, str(found.cases), str(found.missing)


def loss_texts(metric: MetricComparison, delta: CaseDelta) -> tuple[str, str, str]:
    """Return both means and the difference of a case that got worse."""
    change = "other label" if metric.kind == "labels" else delta_text(delta.delta, metric.kind)
    return mean_text(delta.one, metric.kind), mean_text(delta.other, metric.kind), change


MAX_LISTED = 20
"""Most cases that are listed; `--json` has all of them."""


def experiment_lines(record: ExperimentRecord, width: int | None) -> list[str]:
    """Return the lines about an experiment."""
    spec, cost = record.spec, _cost(record)
    repeats = f", {spec.repeats} times each" if spec.repeats > 1 else ""
    model = f", {record.model}" if record.model else ""
    title = f"{record.workflow}: {spec.worker}{model}, {len(spec.cases)} cases{repeats}, {record.state}"
    taken = sum(bool(result.origin) for result in record.results)
    money = "no price is known" if cost is None else f"${cost:.4f}"
    lines = [visible_line(title), ""]
    lines += format_table(("METRIC", "MEAN", "95 %", "CASES", "MISSING"), list(figure_rows(record, str, None)), width)
    done = f"{len(record.results)} of {record.planned} runs"
    lines += ["", f"{done}, {taken} taken over from earlier experiments; {money}"]
    shown = list(_troubles(record))
    lines += ["", *shown[:MAX_LISTED]] if shown else []
    if len(shown) > MAX_LISTED:
        lines.append(f"… and {len(shown) - MAX_LISTED} more; --json has all of them")
    gate = record.gate
    kept = {True: "kept  ", False: "broken"}
    lines += ["", *(visible_line(f"{kept[one.passed]}  {one.sentence}", 200) for one in gate.verdicts)]
    return [*lines, "passed" if gate.passed else "failed"]


def experiment_json(record: ExperimentRecord) -> dict[str, Any]:
    """Return the object of `--json`."""
    gate = record.gate
    return {
        "experiment": record.workflow,
        "digest": record.digest,
        "evaluation": record.name,
        "worker": record.spec.worker,
        "model": record.model,
        "state": record.state,
        "passed": gate.passed,
        "thresholds": [verdict.model_dump(mode="json") for verdict in gate.verdicts],
        "metrics": {
            name: one.model_dump(mode="json") | {"labels": one.labels} for name, one in figures(record.results).items()
        },
        "planned": record.planned,
        "cost_usd": _cost(record),
        "results": [_result(result) for result in record.results],
    }


def _result(result: CaseResult) -> dict[str, Any]:
    earlier = [_result(one) for one in result.earlier]
    return {**result.told(), **truncated_json(result.facts.truncated), "earlier": earlier}


def _cost(record: ExperimentRecord) -> float | None:
    """Return the dollars of runs and judges of this experiment whose prices are known; None: of none."""
    return cost_of(result for result in record.results if not result.origin)


def _troubles(record: ExperimentRecord) -> Iterator[str]:
    for result in record.results:
        name = f"{result.case} ({result.repeat})" if record.spec.repeats > 1 else result.case
        if result.facts.error is not None:
            yield visible_line(f"error    {name}: {result.facts.error.message}", 200)
        for failure in result.scores.failures:
            yield visible_line(f"no score {name}: {failure.name}: {failure.message}", 200)
        for score in result.scores.scores:
            if score.value is False:
                yield visible_line(f"failed   {name}: {score.name}: {score.reason}", 200)


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
    kept = [place for place, name in enumerate(_METRICS) if name not in left_out]
    return [[row[place] for place in kept] for row in (_METRICS, *rows)]


def _worst(compared: ComparedExperiments, width: int | None, most: int) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for metric in compared.comparison.metrics:
        lost = [delta for delta in metric.deltas if delta.delta < 0]
        left_out += max(0, len(lost) - most)
        rows += [(delta.case, metric.metric, *loss_texts(metric, delta)) for delta in lost[:most]]
    if not rows:
        yield from ("", "no case got worse")
        return
    yield from ("", "cases that got worse:", *format_table(_CASES, rows, width))
    if left_out:
        yield from _wrapped(f"{left_out:,} more; --worst N shows more of each metric, --json all", width, "")


def _wrapped(words: str, width: int | None, indent: str) -> list[str]:
    text = visible_line(f"{indent}{words}")
    return textwrap.wrap(text, max(width or _WIDTH, 20), subsequent_indent="    ", drop_whitespace=True) or [text]


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
    rows = [(code(name), *texts) for name, *texts in figure_rows(record, code, 5)]
    lines += ["", *(table(("metric", "mean", "95 %", "cases", "without it"), rows) if rows else ())]
    lines += _error_list(record)
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
            (code(delta.case), code(metric.metric), *loss_texts(metric, delta)) for metric, delta in lost[:MOST_CASES]
        ]
        yield from table(("case", "metric", "A", "B", "difference"), rows)
        if len(lost) > MOST_CASES:
            yield f"\n… and {len(lost) - MOST_CASES:,} more."
    else:
        yield "No score got worse."
    yield ""
    found = [(code(metric.metric), metric_texts(metric)) for metric in compared.comparison.metrics]
    rows = [(name, one.verdict, one.one, one.other, one.interval, one.counts, one.p) for name, one in found]
    yield from table(("metric", "B is", "A", "B", "95 % of the difference", "won/tied/lost", "p"), rows)
    yield ""
    for words in compared.comparison.sentences:
        yield f"- {code(words)}"
    for amount in compared.comparison.amounts:
        yield f"- {amount.name}, no part of the verdicts: {code(amount.sentence)}"


def _error_list(record: ExperimentRecord) -> Iterator[str]:
    failed = [(result, result.facts.error) for result in record.results if result.facts.error is not None]
    if failed:
        yield ""
        yield f"{len(failed):,} {'run' if len(failed) == 1 else 'runs'} ended in an error, which is no wrong answer:"
        yield ""
    for result, error in failed[:MOST_CASES]:
        yield f"- {code(result.case)}, repeat {result.repeat}: {code(error.words[:_REASON_CHARS])}"
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


_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even as references."""


def junit_xml(record: ExperimentRecord) -> str:
    """Return the document."""
    root = Xml.Element("testsuites", name=_text(record.name))
    if record.spec.thresholds or not record.gate.passed:
        _threshold_suite(root, record)
    _case_suite(root, record)
    suites = list(root)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _threshold_suite(root: Xml.Element, record: ExperimentRecord) -> None:
    verdicts = record.gate.verdicts
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=_text(f"{record.name}: thresholds"),
        tests=str(len(verdicts)),
        failures=str(sum(not verdict.passed for verdict in verdicts)),
        errors="0",
    )
    for verdict in verdicts:
        test = Xml.SubElement(
            suite, "testcase", classname=_text(f"{record.name}.thresholds"), name=_text(verdict.metric)
        )
        if not verdict.passed:
            _add(test, "failure", [verdict.sentence])


def _case_suite(root: Xml.Element, record: ExperimentRecord) -> None:
    strict = not record.spec.thresholds
    suite = Xml.SubElement(root, "testsuite", name=_text(f"{record.name}: cases"))
    counts = {"tests": 0, "failures": 0, "errors": 0}
    for case in record.spec.cases:
        results = list(record.results_of(case.id))
        seconds = sum(result.facts.seconds or 0 for result in results)
        test = Xml.SubElement(
            suite, "testcase", classname=_text(f"{record.name}.cases"), name=_text(case.id), time=f"{seconds:.3f}"
        )
        counts["tests"] += 1
        errors = list(_errors(results)) if results else ["the case was not run"]
        scores = [
            (f"run {result.run}: {one.name}", one.value, f": {one.reason}" if one.reason else "")
            for result in results
            for one in result.scores.scores
        ]
        failures = [f"{name} did not pass{reason}" for name, value, reason in scores if value is False]
        if errors:
            counts["errors"] += 1
            _add(test, "error", errors)
        elif failures and strict:
            counts["failures"] += 1
            _add(test, "failure", failures)
        shown = [f"{name} = {value}{reason}" for name, value, reason in scores]
        Xml.SubElement(test, "system-out").text = _text("\n".join(shown))
    for name, count in counts.items():
        suite.set(name, str(count))


def _add(test: Xml.Element, kind: str, lines: Sequence[str]) -> None:
    Xml.SubElement(test, kind, message=_text(lines[0])).text = _text("\n".join(lines))


def _errors(results: list[CaseResult]) -> Iterator[str]:
    for result in results:
        if result.facts.error is not None:
            yield f"run {result.run}: {result.facts.error.words}"
        for failure in result.scores.failures:
            yield f"run {result.run}: evaluator {failure.name}: {failure.message}"


def _text(words: str) -> str:
    """Return the words with hidden characters written out, line by line: models write some of them."""
    return _NO_XML.sub("\ufffd", "\n".join(visible_line(line) for line in words.split("\n")))


LOG_VERSION = 2
_STATES = {"running": "started", "completed": "success", "cancelled": "cancelled", "failed": "error"}


def inspect_log(record: ExperimentRecord) -> dict[str, Any]:
    """Return the log: a sample for each case, an epoch for each repeat; a case that ended in an error has no score."""
    began = _moment(record.started_at)
    ended = "" if record.ended_at is None else _moment(record.ended_at)
    samples = [
        _inspect_sample(record, case, result)
        for result in record.results
        if (case := record.spec.case(result.case)) is not None
    ]
    log: dict[str, Any] = {
        "version": LOG_VERSION,
        "status": _STATES[record.state],
        "eval": _inspect_spec(record, began),
        "plan": {"name": "plan", "steps": [{"solver": record.spec.worker, "params": {}}]},
        "results": _inspect_results(record),
        "stats": {"started_at": began, "completed_at": ended, "model_usage": _usages(record, record.results)},
    }
    if record.state == "failed":
        log["error"] = _inspect_error("the evaluation failed")
    return {**log, "samples": samples}


def _inspect_spec(record: ExperimentRecord, began: str) -> dict[str, Any]:
    ids = [case.id for case in record.spec.cases]
    return {
        "eval_id": _digits(record),
        "run_id": record.workflow,
        "created": began,
        "task": record.name,
        "task_id": _digits(record),
        "task_version": record.worker_version or 0,
        "dataset": {"name": record.name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": _model(record),
        "config": {"epochs": record.spec.repeats, "epochs_reducer": ["mean"]},
        "scorers": [{"name": name} for name in scores_by_metric(record.results)],
        "metadata": {"worker": record.spec.worker, "digest": record.digest},
    }


def _digits(record: ExperimentRecord) -> str:
    return record.digest.rpartition("-")[2][:22]


def _model(record: ExperimentRecord) -> str:
    return record.model.replace(":", "/", 1) or "none/none"


def _inspect_results(record: ExperimentRecord) -> dict[str, Any]:
    scores: list[dict[str, Any]] = []
    for name, found in figures(record.results).items():
        is_mean = found.mean is not None
        scored = found.cases if is_mean else 0
        scores.append(
            {
                "name": name,
                "scorer": name,
                "reducer": "mean",
                "metrics": {"mean": {"name": "mean", "value": found.mean, "params": {}}} if is_mean else {},
                "scored_samples": scored,
                "unscored_samples": len(record.spec.cases) - scored,
            }
        )
    completed = sum(result.facts.error is None for result in record.results)
    return {"total_samples": record.planned, "completed_samples": completed, "scores": scores}


def _inspect_sample(record: ExperimentRecord, case: EvaluationCase, result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    answer = _plain(facts.output)
    sample: dict[str, Any] = {
        "id": case.id,
        "epoch": result.repeat,
        "input": case.prompt or _plain(case.input),
        "target": _plain(case.expected),
        "metadata": {**case.metadata, "run": result.run, "input": case.input, "attachments": list(case.attachments)},
        "messages": [{"role": "user", "content": case.prompt or _plain(case.input)}],
        "output": {"model": _model(record), "choices": [], "completion": ""},
        "model_usage": _usages(record, [result]),
        "uuid": f"{_digits(record)}-{case.id}-{result.repeat}",
    }
    if facts.seconds is not None:
        sample |= {"total_time": facts.seconds, "working_time": facts.seconds}
    if facts.error is not None:
        return sample | {"error": _inspect_error(facts.error.words)}
    message = {"role": "assistant", "content": answer, "source": "generate"}
    choice = {"message": message, "stop_reason": "stop"}
    return sample | {
        "messages": [*sample["messages"], message],
        "output": {"model": _model(record), "choices": [choice], "completion": answer},
        "scores": {
            one.name: {"value": one.value, "answer": answer, "explanation": one.reason or None}
            for one in result.scores.scores
        },
    }


def _usages(record: ExperimentRecord, results: Iterable[CaseResult]) -> dict[str, Any]:
    """Return the tokens of the worker's runs; those of judges are not among them."""
    usages = [result.facts.usage for result in results]
    cost = known_sum(one.cost for one in usages)
    return {
        _model(record): {
            "input_tokens": sum(one.input_tokens for one in usages),
            "output_tokens": sum(one.output_tokens for one in usages),
            "total_tokens": sum(one.tokens for one in usages),
            **({} if cost is None else {"total_cost": cost}),
        }
    }


def _inspect_error(message: str) -> dict[str, str]:
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _plain(value: Any) -> str:
    """Return a text as it is, nothing as an empty text, and any other value as JSON."""
    return "" if value is None else json_text(value)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


_KINDS = {bool: "assertions", float: "scores", str: "labels"}


def pydantic_evals_report(record: ExperimentRecord) -> dict[str, Any]:
    """Return the report: cases with an answer, and failures, which are the cases that ended in an error.

    A cost or a time that is not known is left out, and is not zero, except where the format wants a number for each
    case (`task_duration`, `total_duration`).
    """
    cases, failures = list[dict[str, Any]](), list[dict[str, Any]]()
    for result in record.results:
        case = record.spec.case(result.case)
        if case is None:
            continue
        is_repeated = record.spec.repeats > 1
        given = {"prompt": case.prompt, "input": case.input, "attachments": list(case.attachments)}
        common = {
            "name": f"{case.id} [{result.repeat}/{record.spec.repeats}]" if is_repeated else case.id,
            "inputs": {name: value for name, value in given.items() if value not in ("", None, [])},
            "metadata": case.metadata or None,
            "expected_output": case.expected,
            "source_case_name": case.id if is_repeated else None,
        }
        if result.facts.error is None:
            cases.append({**common, **_report_case(result)})
        else:
            failures.append({**common, "error_message": result.facts.error.words, "error_stacktrace": ""})
    return {
        "name": record.workflow,
        "dataset_name": record.name,
        "cases": cases,
        "failures": failures,
        "analyses": [],
        "report_evaluator_failures": [],
        "experiment_metadata": {
            "digest": record.digest,
            "worker": record.spec.worker,
            "worker_version": record.worker_version,
            "model": record.model,
            "judge": "" if record.spec.judge is None else record.spec.judge.worker,
            "repeats": record.spec.repeats,
        },
    }


def _report_case(result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    usage = facts.usage
    judging = sum(judge.seconds or 0 for judge in result.judges)
    scores: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS.values()}
    for score in result.scores.scores:
        scores[_KINDS[type(score.value)]][score.name] = {
            "name": score.name,
            "value": score.value,
            "reason": score.reason or None,
            "source": _source(score.name),
        }
    metrics = {
        "turns": usage.turns,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    }
    return {
        "output": facts.output,
        **scores,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "attributes": {"run": result.run},
        "task_duration": facts.seconds or 0.0,
        "total_duration": (facts.seconds or 0.0) + judging,
        "evaluator_failures": [
            {"name": one.name, "error_message": one.message, "error_stacktrace": "", "source": _source(one.name)}
            for one in result.scores.failures
        ],
    }


def _source(name: str) -> dict[str, Any]:
    return {"name": name, "arguments": None}


def experiment_csv(record: ExperimentRecord) -> str:
    """Return the document."""
    cases = {case.id: case for case in record.spec.cases}
    return csv_text([_row(result, cases.get(result.case)) for result in record.results])


def _row(result: CaseResult, case: EvaluationCase | None) -> ResultRow:
    facts, usage = result.facts, result.facts.usage
    given = case or EvaluationCase(id=result.case)
    lead = {
        "case": result.case,
        "repeat": result.repeat,
        "file": "\n".join(given.attachments),
        "given": given.prompt or given.input,
        "expected": given.expected,
        "status": "completed" if facts.error is None else "failed",
    }
    tail = {
        "error": "" if facts.error is None else facts.error.words,
        "evaluator_failures": "\n".join(f"{one.name}: {one.message}" for one in result.scores.failures),
        "truncated": facts.truncated,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost,
        "seconds": facts.seconds,
        "run": result.run,
    }
    return ResultRow(lead, facts.output, {one.name: one.value for one in result.scores.scores}, tail)
