"""Workshops for tests of one module."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.sandbox.safe_open import OpenBelow, best_way_to_open, open_by_component
from tests.support.servers.authorities import trust_nobody
from tests.support.workshops.file_tree import Files
from tests.support.workshops.workshop_folder import WorkshopFolder

trust_nobody()


@pytest.fixture(params=list(dict.fromkeys([best_way_to_open(), open_by_component])))
def open_below(request: pytest.FixtureRequest) -> OpenBelow:
    return request.param


@pytest.fixture
def files(tmp_path: Path, open_below: OpenBelow) -> Files:
    workshop = tmp_path / "workshop"
    workshop.mkdir()
    return Files(workshop, open_below=open_below)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workshop, with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def workshop(tmp_path: Path) -> WorkshopFolder:
    root = tmp_path / "workshop"
    root.mkdir()
    return WorkshopFolder(root)
