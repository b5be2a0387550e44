"""Somebody who has only the `temporal` CLI can start a run, find it, and approve it to the end."""

from __future__ import annotations

import json

from tests.support.patience import eventually
from tests.support.people.desk import Desk


def _approve_until_done(desk: Desk, run: str) -> None:
    """Answer by signal whatever is pending, each once, until the run is finished."""
    answered: set[str] = set()

    def finished() -> bool:
        described = json.loads(desk.temporal("workflow", "describe", "-w", run, "-o", "json"))
        if described["workflowExecutionInfo"]["status"] != "WORKFLOW_EXECUTION_STATUS_RUNNING":
            return True
        listed = desk.temporal(
            "workflow", "list", "--query", f"LlmDoPendingApprovals > 0 AND WorkflowId = '{run}'", "-o", "json"
        )
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


def test_a_detached_run_is_approved_to_its_end(shop: Desk) -> None:
    run = shop.type("start", "pitch_orchestrator", "evaluate every deck", "--detach").stdout.strip()
    _approve_until_done(shop, run)
    assert sorted(shop.evaluations()) == shop.decks


def test_a_run_is_started_and_a_single_approval_needs_no_id(shop: Desk) -> None:
    one = shop.decks[0]
    given = json.dumps({"worker": "pitch_orchestrator", "prompt": f"evaluate {one}.pdf"})
    shop.temporal("workflow", "start", "--type", "LlmDoRun", "--task-queue", "llm-do", "-w", "plain", "--input", given)
    shop.pending("plain", 1)
    shop.temporal("workflow", "signal", "-w", "plain", "--name", "decide", "--input", '{"decision":"approve"}')
    result = json.loads(shop.temporal("workflow", "result", "-w", "plain", "-o", "json"))
    assert one in result["result"]["output"]
    assert sorted(shop.evaluations()) == [one]
