"""An experiment that nobody watches is work: the background host stays until its last case is scored."""

from __future__ import annotations

import pytest

from llm_do_temporal.client.embedded.host import IDLE_SECONDS
from llm_do_temporal.client.embedded.server import running_host
from tests.support.patience import eventually
from tests.support.people.desk import Desk

LONG = f"""
import time
from pathlib import Path

def is_polite(facts):
    time.sleep({2 * IDLE_SECONDS})
    Path(__file__).with_name("NAME").touch()
    return True
"""


def score(desk: Desk, name: str) -> None:
    """Begin the evaluation, leave it, and see the host there when its last score is."""
    (desk.workshop / "evaluators.py").write_text(LONG.replace("NAME", name))
    desk.type("eval", "greeter", "--detach")
    host = running_host(desk.workshop)
    assert host is not None
    eventually((desk.workshop / name).exists, "the case is scored")
    assert running_host(desk.workshop) == host
    eventually(lambda: running_host(desk.workshop) is None, "the host has left")


@pytest.mark.thorough
def test_the_host_stays_while_an_experiment_scores_its_cases_or_results_taken_over(desk: Desk) -> None:
    (desk.workshop / "greeter.eval.yaml").write_text(
        "worker: greeter\ncases: [{name: one, inputs: hello}]\nevaluators: [{Python: 'evaluators.py:is_polite'}]\n"
    )
    score(desk, "first")
    score(desk, "second")  # with a changed evaluator no case runs again
