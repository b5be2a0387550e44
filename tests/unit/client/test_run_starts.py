"""Search attributes with which runs are started."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.errors import ConnectionFailed
from llm_do_temporal.messages.runs import StartRunInput

UNKNOWN = "Namespace default has no mapping defined for search attribute LlmDoState"


class Namespace:
    """A client of a server that refuses search attributes with this message; None: it takes them."""

    def __init__(self, refusal: str | None) -> None:
        self._refusal = refusal
        self.attempts: list[dict[str, Any] | None] = []

    async def start_workflow(self, *_given: Any, search_attributes: TypedSearchAttributes | None, **_more: Any) -> None:
        """See Client."""
        told: dict[str, Any] | None = (
            None
            if search_attributes is None
            else {pair.key.name: pair.value for pair in cast("Any", search_attributes)}
        )
        self.attempts.append(told)
        if told is not None and self._refusal is not None:
            raise RPCError(self._refusal, RPCStatusCode.INVALID_ARGUMENT, b"")


async def started(namespace: Namespace, runs: int = 2) -> list[dict[str, Any] | None]:
    """The attributes of each attempt to start these runs."""
    client = LlmDoClient(cast("Any", namespace))
    for number in range(runs):
        await client.start(StartRunInput(worker="main"), run=f"run-{number}")
    return namespace.attempts


async def test_a_run_begins_with_its_state_and_its_worker() -> None:
    expected = {"LlmDoState": "running", "LlmDoPendingApprovals": 0, "LlmDoWorker": "main"}
    assert await started(Namespace(None)) == [expected, expected]


async def test_a_namespace_that_does_not_know_them_is_asked_once_and_gets_runs_without() -> None:
    first, *later = await started(Namespace(UNKNOWN))
    assert first is not None
    assert later == [None, None]


async def test_another_refusal_is_an_error() -> None:
    with pytest.raises(ConnectionFailed, match="the task queue is too long"):
        await started(Namespace("the task queue is too long"))


async def test_a_long_path_of_a_template_is_listed_by_its_beginning() -> None:
    namespace = Namespace(None)
    path = f"templates/{'x' * 1_000}.yaml"
    await LlmDoClient(cast("Any", namespace)).start(StartRunInput(worker=path), run="run")
    (told,) = namespace.attempts
    assert told is not None
    assert told["LlmDoWorker"] == path[:255]
