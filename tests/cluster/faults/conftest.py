"""Fixture of the faults: one cluster for all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.faults.stack import FaultStack
from tests.cluster.state import default_folder


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[FaultStack]:
    """A cluster with relays in its connections."""
    # Not below the folders of pytest: PostgreSQL may be another account, and has to get to its own files.
    with tempfile.TemporaryDirectory(dir=default_folder().parent, prefix="llm-do-cluster-") as folder:
        stack = FaultStack(Path(folder))
        try:
            stack.up()
            yield stack
        finally:
            stack.down()


@pytest.fixture
def stack(cluster: FaultStack) -> Iterator[FaultStack]:
    """The cluster, whole again after each fault."""
    yield cluster
    (cluster.files / "hold").unlink(missing_ok=True)
    cluster.mend()
