from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.workshops.workshop_folder import WorkshopFolder


@pytest.fixture
def workshop(tmp_path: Path) -> WorkshopFolder:
    root = tmp_path / "workshop"
    root.mkdir()
    return WorkshopFolder(root)
