"""The record of a run as histories tell it: its facts, its files, its periods, and tables of its results."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from llm_do_temporal.client.record.facts import RunFacts, Story
from llm_do_temporal.client.record.results import MOST_COLUMNS, ResultRow, ShownResult, TrackPart, csv_text, track_of
from llm_do_temporal.client.views.run_view import Item
from llm_do_temporal.messages.runs import BatchItem, ItemResult
from tests.support.runs.histories import read_history

HISTORIES = Path(__file__).parents[2] / "replay" / "histories"
ITEMS = (BatchItem(name="a.pdf"), BatchItem(name="b.pdf", unusable="the file 'b.pdf' is empty"))


def part_of(name: str) -> TrackPart:
    """The track of the entry invocation of a recorded run."""
    part = TrackPart("run-1", "run-1", "main")
    for event in read_history(HISTORIES / f"0.1.0-{name}" / "run-1.json.gz").events:
        part.take(event)
    return part


def story_of(name: str) -> Story:
    """The story of a recorded run without delegations."""
    story = Story("run-1")
    for event in read_history(HISTORIES / f"0.1.0-{name}" / "run-1.json.gz").events:
        story.take("run-1", event)
    return story


def test_periods_are_turns_calls_and_waits_in_their_order() -> None:
    track = track_of([part_of("modify")])
    turn, call, wait, last = track.periods
    assert [one.kind for one in track.periods] == ["turn", "call", "wait", "turn"]
    assert (call.label, wait.label) == ("write_file", "write_file /a.txt (2 bytes)")
    assert wait.outcome == "modify by ada"
    assert turn.end is not None
    assert call.begin >= turn.end
    assert wait.end is not None
    assert call.begin <= wait.begin <= wait.end
    assert call.end is not None
    assert call.end <= last.begin
    assert not any(one.failed for one in track.periods)
    assert track.read_from is None


def test_a_written_file_is_the_one_that_was_written_and_not_the_one_that_was_asked_about() -> None:
    (file,) = track_of([part_of("modify")]).files
    assert (file.place.path, file.bytes, file.by, file.created) == ("/b.txt", 6, "main", True)


def test_a_story_has_prompt_result_and_files() -> None:
    story = story_of("modify")
    assert (story.facts.task, story.facts.prompt, story.facts.output) == ("go", "go", "Done.")
    assert story.facts.has_result
    assert [file.place.path for file in story.files] == ["/b.txt"]


def test_a_rejected_run_says_why_it_ended() -> None:
    facts = story_of("refusal-aborts").facts
    assert not facts.has_result
    assert facts.error
    assert facts.output is None


def test_a_batch_tells_its_items_and_their_outcomes() -> None:
    story = story_of("batch")
    assert story.facts.items
    assert len(story.facts.outcomes) == len(story.facts.items)


def test_the_files_of_a_whole_tree_are_told_by_who_wrote_them() -> None:
    story, folder = Story("recorded"), HISTORIES.parents[1] / "support" / "histories" / "pitch-decks"
    for path in sorted(folder.glob("*.json")):
        workflow_id = path.stem.replace(".", "/")
        for event in WorkflowHistory.from_json(workflow_id, path.read_text()).events:
            story.take(workflow_id, event)
    assert len(story.files) == 5
    assert {file.by for file in story.files} == {"main"}
    assert all(file.place.path.startswith("/evaluations/") for file in story.files)


def test_an_open_batch_names_the_items_that_cannot_be_done() -> None:
    assert RunFacts(items=ITEMS).failures == (("b.pdf", "the file 'b.pdf' is empty"),)


def test_a_batch_that_has_ended_names_all_that_failed_with_the_reason() -> None:
    outcomes = (
        ItemResult(name="a.pdf", status="failed", code="ModelFailed", message="no answer"),
        ItemResult(name="b.pdf", status="failed"),
        ItemResult(name="c.pdf", status="completed"),
    )
    assert RunFacts(items=ITEMS, outcomes=outcomes).failures == (("a.pdf", "no answer"), ("b.pdf", ""))


def test_a_run_without_a_batch_has_no_items_that_failed() -> None:
    assert RunFacts(prompt="x").failures == ()


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
