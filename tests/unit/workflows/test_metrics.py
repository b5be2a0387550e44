"""What is counted of a turn, whatever a provider says that it took."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage
from temporalio import workflow
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.workflows.runtime.spans import COST, TOKENS, count_turn, is_generated, worker_label

MOST = 1_000_000_000


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("workers/main.worker", "main"),
        ("pkg:main", "main"),
        ("workers/generated-ones/main.worker", "main"),
        # A model calls what it makes as it likes, and makes as many as it likes.
        ("workers/generated/main.worker", "workers/generated"),
    ],
)
def test_only_names_that_people_gave_are_labels(source: str, label: str) -> None:
    worker = PinnedWorker(name="main", source=source, sha256="0", instructions="")
    assert worker_label(worker.name, generated=is_generated(worker)) == label


@pytest.mark.parametrize(
    ("said", "counted"),
    [((7, 2, Decimal("0.5")), (7, 2, 0.5)), ((-1, 2**70, Decimal(-1)), (0, MOST, 0)), ((1, 1, None), (1, 1, None))],
)
def test_a_turn_is_counted_as_far_as_it_can_be(
    said: tuple[int, int, Decimal | None], counted: tuple[int, int, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = MetricBuffer(100)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=told))
    monkeypatch.setattr(workflow, "metric_meter", lambda: runtime.metric_meter)
    usage = RequestUsage(input_tokens=said[0], output_tokens=said[1], cost=said[2])
    count_turn(ModelResponse(parts=[], usage=usage), worker="main", model="openai:m")
    found = [(one.metric.name, one.attributes.get("direction"), one.value) for one in told.retrieve_updates()]
    tokens = [(TOKENS, "input", counted[0]), (TOKENS, "output", counted[1])]
    assert [one for one in found if one[0] in (TOKENS, COST)] == [
        *tokens,
        *([] if counted[2] is None else [(COST, None, counted[2])]),
    ]
