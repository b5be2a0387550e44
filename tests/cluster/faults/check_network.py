"""Part of `make cluster-faults`: connections fall silent while runs are at work, and are mended."""

from __future__ import annotations

import os

import pytest

from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.stack import SERVICES, FaultStack

CUT = SERVICES[0]


def test_a_worker_service_that_is_cut_off_for_25_s_does_nothing_twice(stack: FaultStack) -> None:
    Clerks.begin(stack, "short", 6).outlive_cut(CUT, 25)


@pytest.mark.skipif(not os.environ.get("LONG_CUTS"), reason="NOT RUN: it takes 12 minutes; LONG_CUTS=1 runs it")
@pytest.mark.timeout(1800)
def test_a_worker_service_that_is_cut_off_for_10_min_does_nothing_twice(stack: FaultStack) -> None:
    Clerks.begin(stack, "minutes", 6).outlive_cut(CUT, 600)
