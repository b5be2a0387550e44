"""The workshop that ships loads without a complaint and can be run with any model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import ApprovalRefusal, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Tree, narrow, root_tree
from llm_do_temporal.policy.shell import ShellPolicy, judge_command
from tests.support.workshops.drawn_decks import PIPELINE, text_of_pages

WORKSHOP = PIPELINE.parents[1]
SCRIPTS = WORKSHOP.parent / "scripts"
MAX_DECK_BYTES = 300_000


def test_it_has_no_problems() -> None:
    assert check_workshop(WORKSHOP) == []


def test_its_workers_have_the_workshops_files() -> None:
    workshop = load_workshop(WORKSHOP)
    assert workshop.config.sandbox is not None
    sandboxes = [Registry(workshop).load(path.stem).sandbox for path in WORKSHOP.glob("*.worker")]
    assert len(sandboxes) > 10
    assert all(sandbox is None or sandbox.paths is None for sandbox in sandboxes)


@pytest.mark.parametrize("name", sorted(path.stem for path in WORKSHOP.glob("*.worker")))
def test_its_workers_name_no_model_so_that_any_can_be_chosen(name: str) -> None:
    worker = Registry(load_workshop(WORKSHOP)).load(name)
    assert worker.model is None
    assert worker.warnings == ()


def test_the_evaluator_is_told_the_procedure() -> None:
    worker = Registry(load_workshop(WORKSHOP)).load("pitch_evaluator")
    assert (WORKSHOP / "PROCEDURE.md").read_text().splitlines()[0] in worker.instructions
    assert worker.attachment_policy.max_attachments == 1


@pytest.mark.parametrize(
    ("worker", "command", "asks"),
    [
        ("code_analyzer", "git log --oneline", False),
        ("code_analyzer", "wc -l tools.py", False),
        ("code_analyzer", "grep -n -e TODO tools.py", False),
        ("code_analyzer", "ls", False),
        ("code_analyzer", "python3 --version", True),
        ("code_analyzer", "git commit -m x", True),
        ("file_organizer", "mkdir -p /inbox/images", False),
        ("file_organizer", "mv -n /inbox/logo.svg /inbox/images/", True),
    ],
)
def test_looking_runs_at_once_and_the_rest_asks(worker: str, command: str, asks: bool) -> None:
    policy, tree = commands_of(worker)
    assert judge_command(policy, tree, command).use.asks is asks


@pytest.mark.parametrize(
    ("worker", "command"),
    [
        ("code_analyzer", "git push"),
        ("file_organizer", "mv -n /workshop.yaml /inbox/"),
        ("file_organizer", "mv -n /inbox/logo.svg /pipeline/"),
        ("file_organizer", "mkdir -p ../x"),
    ],
)
def test_what_they_are_not_for_is_refused(worker: str, command: str) -> None:
    policy, tree = commands_of(worker)
    with pytest.raises((ApprovalRefusal, SandboxRefusal)):
        judge_command(policy, tree, command)


def test_the_file_organizer_can_move_and_nothing_else() -> None:
    policy, tree = commands_of("file_organizer")
    for command in ("rm -r /inbox", "mv /inbox/logo.svg /inbox/todo.md", "cp -r /inbox /inbox/x"):
        assert judge_command(policy, tree, command).use.name == "proc.exec.unlisted"


def test_the_analyzer_can_write_nothing() -> None:
    _, tree = commands_of("code_analyzer")
    assert all(mount.readonly for mount in tree.mounts)


def commands_of(name: str) -> tuple[ShellPolicy, Tree]:
    """What a shipped worker may run, and on which files."""
    workshop = load_workshop(WORKSHOP)
    worker = Registry(workshop).load(name)
    assert worker.shell is not None
    tree = narrow(root_tree(workshop.config.sandbox), worker.sandbox, workshop_has_sandbox=True)
    return worker.shell, tree


def test_the_decks_are_small_and_only_the_scan_has_no_text() -> None:
    decks = sorted(PIPELINE.glob("*.pdf"))
    assert len(decks) >= 4
    assert all(deck.stat().st_size < MAX_DECK_BYTES for deck in decks)
    without_text = [deck.stem for deck in decks if not any(text_of_pages(deck.read_bytes()))]
    assert without_text == ["brightacre-scan"]


def test_the_decks_are_drawn_alike_every_time_and_say_what_the_shipped_ones_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS / "decks"), *sys.path])
    draw = runpy.run_path(str(SCRIPTS / "decks" / "make_decks.py"))["main"]
    draw(tmp_path / "once")
    draw(tmp_path / "again")
    for deck in PIPELINE.glob("*.pdf"):
        drawn = (tmp_path / "once" / deck.name).read_bytes()
        assert drawn == (tmp_path / "again" / deck.name).read_bytes()
        assert text_of_pages(drawn) == text_of_pages(deck.read_bytes())
