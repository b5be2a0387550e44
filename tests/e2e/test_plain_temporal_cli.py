"""Somebody who has only the `temporal` CLI can start a run, find it, and approve it to the end."""

from __future__ import annotations

import json

from tests.support.patience import eventually
from tests.support.people.desk import Desk


def _free_port_flags() -> tuple[str, ...]:
    from llm_do_temporal.client.embedded.server import any_free_port

    return ("--port", str(any_free_port()), "--ui-port", str(any_free_port()))


def _approve_until_done(desk: Desk, run: str) -> None:
    """Answer by signal whatever is pending, each once, until the run is finished."""
    answered: set[str] = set()

    def finished() -> bool:
        described = json.loads(desk.temporal("workflow", "describe", "-w", run, "-o", "json"))
        if described["workflowExecutionInfo"]["status"] != "WORKFLOW_EXECUTION_STATUS_RUNNING":
            return True
        listed = desk.temporal("workflow", "list", "--query", "LlmDoPendingApprovals > 0", "-o", "json")
        for found in json.loads(listed):  # a list may be a moment behind: then nothing waits there any more
            memo = desk.temporal("workflow", "describe", "-w", found["execution"]["workflowId"], "-o", "json")
            waiting = json.loads(memo)["workflowExecutionInfo"]["memo"]["fields"].get("llm_do_pending", [])
            for approval in waiting:
                if approval["id"] in answered:  # the memo, too, is a moment behind
                    continue
                answered.add(approval["id"])
                desk.temporal(
                    "workflow",
                    "signal",
                    "-w",
                    run,
                    "--name",
                    "decide",
                    "--input",
                    json.dumps({"id": approval["id"], "decision": "approve"}),
                )
        return False

    eventually(finished, f"the run {run} is approved to its end")


def test_a_detached_run_is_approved_to_its_end(desk: Desk) -> None:
    desk.begin("dev", *_free_port_flags())
    assert desk.host.kind == "dev"
    run = desk.type("start", "pitch_orchestrator", "evaluate every deck", "--detach").stdout.strip()
    _approve_until_done(desk, run)
    assert sorted(desk.evaluations()) == desk.decks


def test_a_run_is_started_and_a_single_approval_needs_no_id(desk: Desk) -> None:
    desk.begin("dev", *_free_port_flags())
    one = desk.decks[0]
    given = json.dumps({"worker": "pitch_orchestrator", "prompt": f"evaluate {one}.pdf"})
    desk.temporal("workflow", "start", "--type", "LlmDoRun", "--task-queue", "llm-do", "-w", "plain", "--input", given)
    desk.pending("plain", 1)
    desk.temporal("workflow", "signal", "-w", "plain", "--name", "decide", "--input", '{"decision":"approve"}')
    result = json.loads(desk.temporal("workflow", "result", "-w", "plain", "-o", "json"))
    assert one in result["result"]["output"]
    assert sorted(desk.evaluations()) == [one]
