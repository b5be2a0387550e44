"""The list of what waits: plain where one person decides some day, and with more columns where it matters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from llm_do_temporal.cli.tables import questions_table
from llm_do_temporal.client.history.questions import Question

PLAIN = ["ID", "RUN", "PATH", "TOOL", "ASKED", "SUMMARY"]


def asking(question: Question, **request: object) -> Question:
    return replace(question, request=question.request.model_copy(update=request))


def test_deadlines_and_votes_have_columns_where_there_are_any(pending: Question) -> None:
    assert questions_table([pending])[0] == PLAIN
    timed = asking(pending, deadline=datetime.now(UTC) + timedelta(days=2, hours=1))
    header, (first, second) = questions_table([pending, timed])
    assert header == [*PLAIN[:-1], "DEADLINE", "SUMMARY"]
    assert (first[5], second[5]) == ("", "in 2d")
    header, (row,) = questions_table([asking(timed, quorum=2)])
    assert header == [*PLAIN[:-1], "DEADLINE", "VOTES", "SUMMARY"]
    assert row[6] == "0 of 2"


def test_a_question_of_a_batch_names_its_item(pending: Question) -> None:
    header, (row,) = questions_table([asking(pending, path="main/item-2", item="b.pdf")])
    assert row[header.index("PATH")] == "main/item-2 (b.pdf)"


def test_questions_of_two_runs_are_told_apart_by_the_tasks(pending: Question) -> None:
    one = replace(pending, task="Evaluate the deck of Acme")
    other = replace(pending, run="run-2", task="Evaluate the deck of Bolt, and say whether " * 3)
    header, (first, second) = questions_table([one, other], has_tasks=True)
    at = header.index("TASK")
    assert first[at] == "Evaluate the deck of Acme"
    assert second[at].startswith("Evaluate the deck of Bolt")
    assert len(second[at]) <= 32
