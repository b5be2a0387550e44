"""Results as CSV that spreadsheets and data tools read: one row a result.

Pure. Owns the form: commas, CRLF at the end of a row, LF within a cell, a column for each key of a structured output.
A text that a spreadsheet would take for a formula gets an apostrophe before it. Values of configured keys are removed.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import without_halves, written_out

BOM = "\ufeff"
"""Mark at the beginning of a file, without which Excel does not read it as UTF-8."""
MOST_COLUMNS = 200
"""Keys of outputs that become columns; outputs with more are one column of JSON."""
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""Beginnings of formulas, the wide forms among them: some programs take them for the narrow ones."""
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class ResultRow:
    """Row of a table of results."""

    lead: Mapping[str, Any]
    """Columns before the output."""
    output: Any
    scores: Mapping[str, Any]
    tail: Mapping[str, Any]
    """Columns behind the scores."""


def csv_text(rows: Sequence[ResultRow]) -> str:
    """Return the table; all rows have the same columns before the output, and behind the scores."""
    keys = _output_keys([row.output for row in rows])
    scores = list(dict.fromkeys(name for row in rows for name in row.scores))
    outputs = ["output"] if keys is None else [f"output.{key}" for key in keys]
    lead, tail = (list(rows[0].lead), list(rows[0].tail)) if rows else ([], [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_cell(name) for name in (*lead, *outputs, *(f"score.{name}" for name in scores), *tail)])
    for row in rows:
        given = cast("dict[str, Any]", row.output or {})
        output = [row.output] if keys is None else [given.get(key) for key in keys]
        values = [*row.lead.values(), *output, *(row.scores.get(name) for name in scores), *row.tail.values()]
        writer.writerow([_cell(value) for value in values])
    return text.getvalue()


def _output_keys(outputs: Sequence[Any]) -> list[str] | None:
    """Return the keys of structured outputs, in the order in which they appear; None where they are one column."""
    given = [output for output in outputs if output is not None]
    if not given or not all(isinstance(output, dict) for output in given):
        return None
    keys = list(dict.fromkeys(key for output in given for key in cast("dict[str, Any]", output)))
    return keys if 0 < len(keys) <= MOST_COLUMNS else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return remove_keys(without_halves(json.dumps(value, ensure_ascii=False)))
    text = remove_keys(without_halves(value)).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub(lambda found: written_out(found[0]), text)
    is_formula = text.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text
