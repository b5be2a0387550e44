"""Records the histories that `tests/replay` holds every later version against.

Runs the shipped pitch deck workshop on a development server of its own, with approvals given by update and by
signal, and writes each workflow's history as JSON. Run it when a feature gets its first history, never to make a
failing replay pass.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.children import temporal_binary
from llm_do_temporal.messages import DECIDE_SIGNAL, Decision, DecisionKind, Remember, StartRunInput
from llm_do_temporal.service import build_worker, register_search_attributes

ROOT = Path(__file__).parents[1]
HISTORIES = ROOT / "tests" / "replay" / "histories"


async def record(name: str) -> list[Path]:
    """Run the job once and write its histories into a folder of this name."""
    folder = HISTORIES / name
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        workshop = Path(temporary) / "workers"
        shutil.copytree(ROOT / "workers", workshop, ignore=shutil.ignore_patterns(".llm-do", "evaluations"))
        environment = await WorkflowEnvironment.start_local(
            dev_server_existing_path=temporal_binary(),
            data_converter=pydantic_data_converter,
            dev_server_log_level="error",
        )
        async with environment:
            await register_search_attributes(environment.client)
            async with build_worker(environment.client, workshop):
                return await _run_and_write(LlmDoClient(environment.client), folder)


async def _run_and_write(client: LlmDoClient, folder: Path) -> list[Path]:
    run = await client.start(
        StartRunInput(worker="pitch_orchestrator", prompt="evaluate every deck", started_by="recorder"), run="recorded"
    )
    await _decide_everything(client, run)
    await client.result(run)
    view = await client.view(run)
    written: list[Path] = []
    for workflow_id in (run, *view.nodes):
        history = await client.temporal.get_workflow_handle(workflow_id).fetch_history()
        path = folder / f"{workflow_id.replace('/', '.')}.json"
        path.write_text(history.to_json() + "\n", encoding="utf-8")
        written.append(path)
    return written


async def _decide_everything(client: LlmDoClient, run: str) -> None:
    follower = client.follow(run)
    async for _ in follower.events():
        if len(follower.view.pending) >= 4:
            break
    first, second, third, *rest = await client.approvals(run)
    await client.decide(run, Decision(id=first.id, decision=DecisionKind.REJECT, note="not this one", by="recorder"))
    changed = {**second.request.args, "content": "changed by a person\n"}
    await client.decide(run, Decision(id=second.id, decision=DecisionKind.MODIFY, args=changed, by="recorder"))
    handle = client.temporal.get_workflow_handle(run)
    await handle.signal(DECIDE_SIGNAL, {"id": third.id, "decision": "approve", "remember": Remember.SESSION})
    await handle.signal(DECIDE_SIGNAL, {"id": "a99", "decision": "approve"})
    await handle.signal(DECIDE_SIGNAL, "nonsense")
    for one in rest:
        await client.decide(run, Decision(id=one.id, decision=DecisionKind.APPROVE, by="recorder"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: record_histories.py NAME   (a folder of this name is made in tests/replay/histories)")
    for recorded in asyncio.run(record(sys.argv[1])):
        print(recorded.relative_to(ROOT))
