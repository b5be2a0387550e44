"""Keys of a capability that is not installed: `check` reads them, and no worker runs without what they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal import extension
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop, run_settings
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.runs import StartRunInput


@pytest.fixture
def _no_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "installed", lambda: ())


@pytest.mark.usefixtures("_no_extensions")
@pytest.mark.parametrize(("key", "start"), [("review: changes", {}), ("", {"review": "changes"})])
def test_a_run_whose_changes_are_reviewed_does_not_begin_without_reviews(
    key: str, start: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "workshop.yaml").write_text(f"name: w\n{key}\n")
    config = load_workshop(tmp_path).config
    with pytest.raises(UsageError, match="a review of changes needs the extension 'review'"):
        run_settings(config, StartRunInput.model_validate({"worker": "w", **start}))


@pytest.mark.usefixtures("_no_extensions")
def test_a_worker_whose_changes_are_reviewed_does_not_run_without_reviews(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("name: w\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "editor.worker").write_text("---\nreview: changes\n---\nEdit.\n")
    with pytest.raises(UsageError, match="worker 'editor', whose changes are reviewed, needs the extension 'review'"):
        Registry(load_workshop(tmp_path)).load("editor")
