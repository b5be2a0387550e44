"""Part of `make cluster-faults`: database and server die, or lose each other, beside runs at work."""

from __future__ import annotations

import time

import pytest

from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.stack import NO_CONNECTION, ROLES, FaultStack
from tests.compose.stack import eventually

DIE = {"database": ("postgresql",), "server": ROLES, "all": ("postgresql", *ROLES)}
SPLIT_SECONDS = 30


@pytest.mark.parametrize("which", DIE)
def test_runs_outlive_what_is_killed_and_started_again(stack: FaultStack, which: str) -> None:
    """Killed twice: while every run has a command under way, and while they go from one turn to the next."""
    clerks = Clerks.begin(stack, which)
    stack.restart(*DIE[which])
    clerks.release()
    clerks.reach(4)
    stack.restart(*DIE[which])
    clerks.finish()


def test_commands_that_end_while_the_server_is_dead_run_once(stack: FaultStack) -> None:
    clerks = Clerks.begin(stack, "dead")
    roles = [stack.cluster.processes[name] for name in ROLES]
    for role in roles:
        role.kill()
    clerks.end()
    stack.mend()
    clerks.finish()


def test_a_frontend_that_is_cut_off_from_history_loses_nothing(stack: FaultStack) -> None:
    clerks = Clerks.begin(stack, "split")
    stack.cut_frontend_from_history()
    began = time.monotonic()
    told = stack.ours("show", clerks.runs[0], check=False)
    assert told.returncode == NO_CONNECTION, told.stderr
    clerks.end()
    eventually(lambda: time.monotonic() - began > SPLIT_SECONDS, f"{SPLIT_SECONDS} s are over")
    stack.mend()
    clerks.finish()
