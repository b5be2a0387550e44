"""Problems of a workshop written down: as lines, as JSON, as annotations of GitHub, as SARIF."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from llm_do_temporal.cli.text import PROGRAM, visible_line
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.yaml.documents import Problem

ProblemFormat = Literal["text", "json", "github", "sarif"]
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def problem_lines(problems: Sequence[Problem], written: ProblemFormat, folder: Path) -> Iterator[str]:
    """Yield the lines that tell of the problems of the workshop in `folder`.

    What machines read names files relative to the working directory, where a repository's checks run.
    """
    match written:
        case "text":
            yield from (problem_line(problem) for problem in problems)
        case "json":
            yield json.dumps([_entry(problem, folder) for problem in problems], indent=2, ensure_ascii=False)
        case "github":
            yield from (_annotation(problem, folder) for problem in problems)
        case "sarif":
            yield json.dumps(_sarif(problems, folder), indent=2, ensure_ascii=False)


def problem_line(problem: Problem) -> str:
    """Return `file:line: severity: message (next step)` for a problem."""
    where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    line = f"{where}: {problem.severity}: {problem.message}"
    return visible_line(f"{line} ({problem.next_step})" if problem.next_step else line)


def summary_line(errors: int, warnings: int) -> str:
    """Return the numbers of errors and warnings in words, on one line."""
    if not errors and not warnings:
        return "no problems"
    return f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _path(problem: Problem, folder: Path) -> str:
    """Return the path of a problem's file, seen from the working directory; of the package's own as it is named."""
    if problem.file.startswith(PACKAGE_PREFIX):
        return problem.file
    return Path(os.path.relpath(folder / problem.file)).as_posix()


def _entry(problem: Problem, folder: Path) -> dict[str, Any]:
    return asdict(problem) | {"file": _path(problem, folder)}


def _words(problem: Problem) -> str:
    return problem.message if problem.next_step is None else f"{problem.message} ({problem.next_step})"


def _annotation(problem: Problem, folder: Path) -> str:
    where = f"file={_path(problem, folder).translate(_IN_PROPERTY)}"
    line = "" if problem.line is None else f",line={problem.line}"
    return f"::{problem.severity} {where}{line},title={PROGRAM} check::{_words(problem).translate(_IN_MESSAGE)}"


def _sarif(problems: Sequence[Problem], folder: Path) -> dict[str, Any]:
    rules = [{"id": one, "shortDescription": {"text": f"a definition's {one}"}} for one in ("error", "warning")]
    driver = {"name": PROGRAM, "version": version(PROGRAM), "rules": rules}
    results = [_result(problem, folder) for problem in problems]
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(problem: Problem, folder: Path) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(os.fsencode(_path(problem, folder)))}}
    if problem.line is not None:
        place["region"] = {"startLine": problem.line}
    return {
        "ruleId": problem.severity,
        "level": problem.severity,
        "message": {"text": _words(problem)},
        "locations": [{"physicalLocation": place}],
    }
