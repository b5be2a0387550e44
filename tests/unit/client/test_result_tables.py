"""Results as CSV: every value in its row and column, and nothing that a spreadsheet would carry out."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from llm_do_temporal.client.record.results import MOST_COLUMNS, ResultRow, ShownResult, csv_text
from llm_do_temporal.client.views.run_view import Item


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows as another program reads them."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def table_of(*outputs: Any) -> list[dict[str, str]]:
    return rows_of(csv_text([ResultRow({"item": "a"}, output, {}, {"cost_usd": 0.5}) for output in outputs]))


def cell_of(output: str) -> str:
    (row,) = table_of(output)
    return row["output"]


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x","y")',
        "+1+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(1)",
        "\t=1",
        "\r\n=1",
        "  =1",
        "\u00a0=1",
        "\uff1d1+1",
        "\uff20SUM(1)",
        "- a list",
    ],
)
def test_a_text_that_a_spreadsheet_would_carry_out_is_text(text: str) -> None:
    assert cell_of(text) == f"'{text}".replace("\r\n", "\n")


@pytest.mark.parametrize("text", ["-5", "+4.25", "1e9", "-1.5E-3", "a=b", "go", ""])
def test_numbers_and_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert cell_of(text) == text


def test_columns_named_by_a_model_are_no_formulas_either() -> None:
    row = ResultRow({"=lead": 1}, {"=key": 1, "a\r\nb": 2}, {"=score": True}, {})
    (header,) = list(csv.reader(io.StringIO(csv_text([row]), newline="")))[:1]
    assert header == ["'=lead", "output.=key", "output.a\nb", "score.=score"]


def test_lines_quotes_and_commas_stay_in_their_cell() -> None:
    text = 'one, "two"\r\nthree\rfour\u2028five'
    written = csv_text([ResultRow({"item": "a"}, text, {}, {})] * 2)
    assert [row["output"] for row in rows_of(written)] == ['one, "two"\nthree\nfour\u2028five'] * 2
    assert written.count("\r\n") == 3
    assert written.count("\r") == 3


def test_control_characters_and_half_characters_are_written_out() -> None:
    assert cell_of("a\0b\x1b[2J\ud800 é👩\u200d🚒") == "a\\x00b\\x1b[2J\\ud800 é👩\u200d🚒"
    (row,) = table_of({"a": ["\ud800"]})
    assert row["output.a"] == '["\\ud800"]'


def test_each_key_of_a_structured_output_is_a_column() -> None:
    rows = table_of({"verdict": "go", "parts": [1, "é"]}, None, {"verdict": -1.5, "sure": False})
    assert [(row["output.verdict"], row["output.parts"], row["output.sure"]) for row in rows] == [
        ("go", '[1, "é"]', ""),
        ("", "", ""),
        ("-1.5", "", "false"),
    ]


@pytest.mark.parametrize("outputs", [[{"a": 1}, "text"], [{}], [{str(n): n for n in range(MOST_COLUMNS + 1)}], [[1]]])
def test_outputs_of_other_shapes_are_one_column(outputs: list[Any]) -> None:
    assert list(table_of(*outputs)[0]) == ["item", "output", "cost_usd"]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("Done.\n", "Done.\n"),
        (None, ""),
        (0, "0"),
        (
            {"summary": "Long enough.", "verdict": "go", "sure": False, "parts": [1], "none": None},
            "verdict: go · sure: false · summary: Long enough.",
        ),
        ({"parts": [1]}, '{"parts": [1]}'),
        ([1, "é"], '[1, "é"]'),
    ],
)
def test_a_result_is_shown_in_few_words(output: Any, words: str) -> None:
    item = Item("a", "main/item-1", output=output)
    assert ShownResult(item, (), None).words == words
    item.fail("ModelFailed", "no answer")
    assert ShownResult(item, (), None).words == "no answer"
