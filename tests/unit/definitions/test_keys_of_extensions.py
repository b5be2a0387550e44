"""Keys of a capability that is not installed: `check` reads them, and no worker runs without what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from llm_do_temporal import extension
from llm_do_temporal.definitions.check import check_workshop
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


@pytest.mark.usefixtures("_no_extensions")
def test_check_names_each_review_that_needs_a_missing_extension(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("name: w\nsandbox: {root: .}\nreview: changes\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "editor.worker").write_text("---\nreview: changes\n---\nEdit.\n")
    (tmp_path / "workers" / "reader.worker").write_text("---\nturns: now\n---\nRead.\n")
    said = "`review` needs the extension 'review', which is not installed here"
    assert [str(one) for one in check_workshop(tmp_path) if one.severity == "warning"] == [
        f"workers/editor.worker:2: {said}",
        f"workshop.yaml:3: {said}",
    ]


def _broken(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError("no hook")


@pytest.mark.parametrize(
    ("hook", "read"),
    [
        ("activity_refs", extension.activity_refs),
        ("service_settings", extension.service_settings),
        ("public_names", partial(extension.added_names, "LlmDoClient")),
        ("commit_activities", extension.commit_activities.__wrapped__),
        ("question_view", partial(extension.answers, lambda one: one.question_view())),
        ("run_starters", extension.run_starters),
        ("definition_files", extension.definition_files),
        ("navigation", partial(extension.added, lambda one: one.navigation())),
        ("routes", partial(extension.added, lambda one: iter(one.routes()))),
    ],
)
def test_a_hook_that_raises_is_an_error_with_the_name_of_its_extension(
    hook: str, read: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = extension.Extension()
    guest.name = "words"
    monkeypatch.setattr(guest, hook, _broken)
    monkeypatch.setattr(extension, "installed", lambda: (guest,))
    with pytest.raises(UsageError, match="the extension 'words' cannot say what it adds: ZeroDivisionError: no hook"):
        read()
