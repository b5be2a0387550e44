"""Experiment as JUnit XML, which continuous integration shows beside the tests. Pure.

The gate decides what fails: a suite of thresholds comes first. Cases are a suite of their own, in which a case fails
only where the evaluation has no thresholds; a run that ended in an error is an error either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as Xml

from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even as references."""


def junit_xml(record: ExperimentRecord) -> str:
    """Return the document."""
    root = Xml.Element("testsuites", name=_text(record.name))
    if record.spec.thresholds or not record.gate.passed:
        _thresholds(root, record)
    _cases(root, record)
    suites = list(root)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _thresholds(root: Xml.Element, record: ExperimentRecord) -> None:
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
            Xml.SubElement(test, "failure", message=_text(verdict.sentence)).text = _text(verdict.sentence)


def _cases(root: Xml.Element, record: ExperimentRecord) -> None:
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
        errors, failures = list(_errors(results)), list(_failures(results))
        if not results:
            errors = ["the case was not run"]
        if errors:
            counts["errors"] += 1
            Xml.SubElement(test, "error", message=_text(errors[0])).text = _text("\n".join(errors))
        elif failures and strict:
            counts["failures"] += 1
            Xml.SubElement(test, "failure", message=_text(failures[0])).text = _text("\n".join(failures))
        Xml.SubElement(test, "system-out").text = _text("\n".join(_scores(results)))
    for name, count in counts.items():
        suite.set(name, str(count))


def _errors(results: list[CaseResult]) -> Iterator[str]:
    for result in results:
        if result.facts.error is not None:
            yield f"run {result.run}: {result.facts.error.type}: {result.facts.error.message}"
        for failure in result.scores.failures:
            yield f"run {result.run}: evaluator {failure.name}: {failure.message}"


def _failures(results: list[CaseResult]) -> Iterator[str]:
    for result in results:
        for score in result.scores.scores:
            if score.value is False:
                yield f"run {result.run}: {score.name} did not pass{f': {score.reason}' if score.reason else ''}"


def _scores(results: list[CaseResult]) -> Iterator[str]:
    for result in results:
        for score in result.scores.scores:
            yield f"run {result.run}: {score.name} = {score.value}{f': {score.reason}' if score.reason else ''}"


def _text(words: str) -> str:
    """Return the words with hidden characters written out, line by line: models write some of them."""
    return _NO_XML.sub("\ufffd", "\n".join(visible_line(line) for line in words.split("\n")))
