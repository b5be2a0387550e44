"""Runs that no worker service takes up: begun with memo and search attributes of runs at work, as lists see them.

Some wait for people; all others can be ended, each with the result of a run that cost something.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

from temporalio import workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.worker import Worker

from benchmarks.processes import NotMeasured
from benchmarks.runner import all_at_once
from llm_do_temporal.messages.base import (
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    RUN_MEMO,
    RUN_WORKFLOW,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.messages.budget import Usage, Waits
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo, RunResult
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.groups import group_of
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import CapabilityUse

PER_RUN = 4
"""Questions of a run that asks."""
GROUPS = 20
AT_ONCE = 50
PATIENCE_SECONDS = 120
_NOBODY, _ENDS = "nobody-polls-this", "polled-at-the-end"
_TREE = Tree(mounts=(Mount(at="/", root="files"),))
_ATTRIBUTES = {
    STATE_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    PENDING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_INT,
    WORKER_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
}


@workflow.defn(name=RUN_WORKFLOW, sandboxed=False)
class EndingRun:
    """A run that ends as soon as it is taken up."""

    @workflow.run
    async def run(self) -> RunResult:
        """Return what a run of three turns with a question returns."""
        cost = Decimal("0.02")
        usage = Usage(requests=3, input_tokens=3_000, output_tokens=300, cost_usd=cost, costs={"bench:scripted": cost})
        return RunResult(output="done", usage=usage, waited=Waits(questions=1, seconds=60, longest=60))


async def begin_runs(temporal: Client, runs: int, questions: int) -> int:
    """Begin so many runs, of which as many ask as it takes; return how many questions wait. Raises NotMeasured."""
    request = AddSearchAttributesRequest(namespace=temporal.namespace, search_attributes=_ATTRIBUTES)
    await temporal.operator_service.add_search_attributes(request)
    asking = questions // PER_RUN
    await all_at_once([partial(_begin, temporal, number, asks=number < asking) for number in range(runs)], AT_ONCE)
    await _await_listed(temporal, f"WorkflowType = '{RUN_WORKFLOW}'", runs)
    return asking * PER_RUN


async def end_runs(temporal: Client, runs: int) -> None:
    """End all runs that ask nothing, which are so many. Raises NotMeasured."""
    async with Worker(temporal, task_queue=_ENDS, workflows=[EndingRun], max_cached_workflows=0):
        ended = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Completed'"
        await _await_listed(temporal, ended, runs)


async def _begin(temporal: Client, number: int, *, asks: bool) -> None:
    run = f"run-{number}"
    pending = [_question(run, PER_RUN * number + each, each) for each in range(PER_RUN)] if asks else []
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE), "waiting" if asks else "running"),
            SearchAttributePair(SearchAttributeKey.for_int(PENDING_ATTRIBUTE), len(pending)),
            SearchAttributePair(SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE), "clerk"),
        ]
    )
    memo = RunMemo(worker="clerk", started_by="bench", task=f"evaluate what came in on day {number}")
    await temporal.start_workflow(
        RUN_WORKFLOW,
        id=run,
        task_queue=_NOBODY if asks else _ENDS,
        memo={RUN_MEMO: memo, PENDING_MEMO: pending},
        search_attributes=attributes,
    )


def _question(run: str, number: int, each: int) -> PendingApprovalMemo:
    path = f"/day-{number % GROUPS}/report-{number}.md"
    args = {"path": path, "content": f"# Report {number}\n\n" + "A line of a report.\n" * 20}
    group = group_of("write_file", args, [CapabilityUse(name="sandbox.write", payload={"path": path})], _TREE)
    return PendingApprovalMemo(
        id=f"a{each + 1}",
        invocation=run,
        key=f"main:{each}",
        worker="clerk",
        path="main",
        tool="write_file",
        summary=f"write_file {path} ({len(args['content'])} bytes)",
        asked_at=datetime.now(UTC) - timedelta(seconds=number),
        digest=digest_of([run, each]),
        group=group,
    )


async def _await_listed(temporal: Client, query: str, runs: int) -> None:
    """Wait until the server lists so many runs. Raises NotMeasured once none has followed for two minutes."""
    found, changed = -1, time.monotonic()
    while found < runs:
        now = (await temporal.count_workflows(query)).count
        if now != found:
            found, changed = now, time.monotonic()
        if time.monotonic() - changed > PATIENCE_SECONDS:
            raise NotMeasured(f"{found} of {runs} runs are listed, and no other for {PATIENCE_SECONDS} s: {query}")
        await asyncio.sleep(0.5)
