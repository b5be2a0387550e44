"""Fixture of the faults: one cluster for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.faults.stack import FaultStack
from tests.cluster.stack import running


@pytest.fixture(scope="session")
def cluster() -> Iterator[FaultStack]:
    """A cluster with relays in its connections."""
    with running(FaultStack) as stack:
        yield stack


@pytest.fixture
def stack(cluster: FaultStack) -> Iterator[FaultStack]:
    """The cluster, whole again after each fault."""
    yield cluster
    (cluster.files / "hold").unlink(missing_ok=True)
    cluster.mend()
