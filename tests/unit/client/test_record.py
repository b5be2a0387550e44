"""The record of a run as recorded histories tell it: its facts, its files, and its periods."""

from __future__ import annotations

from pathlib import Path

from temporalio.client import WorkflowHistory

from llm_do_temporal.client.record.facts import RunFacts, Story
from llm_do_temporal.client.record.results import TrackPart, track_of
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
