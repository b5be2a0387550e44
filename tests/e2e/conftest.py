"""The product as people use it: the installed command in processes of its own, in a copy of the workshop that ships."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.people.desk import Desk, desk_in
from tests.support.servers.temporal import temporal_server


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk of one's own."""
    with desk_in(tmp_path) as desk:
        yield desk


@pytest.fixture
def address() -> Iterator[str]:
    """A Temporal server that nobody of ours started."""
    with temporal_server() as address:
        yield address
