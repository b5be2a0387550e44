"""The workshop that ships loads without a complaint and can be run with any model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from drawn_decks import PIPELINE, text_of_pages

from llm_do_temporal.definitions import Registry, check_workshop, load_workshop

WORKSHOP = PIPELINE.parent
SCRIPTS = WORKSHOP.parent / "scripts"
MAX_DECK_BYTES = 300_000


def test_it_has_no_problems() -> None:
    assert check_workshop(WORKSHOP) == []


@pytest.mark.parametrize("name", ["greeter", "pitch_evaluator", "pitch_orchestrator"])
def test_its_workers_name_no_model_so_that_any_can_be_chosen(name: str) -> None:
    worker = Registry(load_workshop(WORKSHOP)).load(name)
    assert worker.model is None
    assert worker.warnings == ()


def test_the_evaluator_is_told_the_procedure() -> None:
    worker = Registry(load_workshop(WORKSHOP)).load("pitch_evaluator")
    assert (WORKSHOP / "PROCEDURE.md").read_text().splitlines()[0] in worker.instructions
    assert worker.attachment_policy.max_attachments == 1


def test_the_decks_are_small_and_only_the_scan_has_no_text() -> None:
    decks = sorted(PIPELINE.glob("*.pdf"))
    assert len(decks) >= 4
    assert all(deck.stat().st_size < MAX_DECK_BYTES for deck in decks)
    without_text = [deck.stem for deck in decks if not any(text_of_pages(deck.read_bytes()))]
    assert without_text == ["brightacre-scan"]


def test_the_decks_are_drawn_alike_every_time_and_say_what_the_shipped_ones_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    draw = runpy.run_path(str(SCRIPTS / "make_decks.py"))["main"]
    draw(tmp_path / "once")
    draw(tmp_path / "again")
    for deck in PIPELINE.glob("*.pdf"):
        drawn = (tmp_path / "once" / deck.name).read_bytes()
        assert drawn == (tmp_path / "again" / deck.name).read_bytes()
        assert text_of_pages(drawn) == text_of_pages(deck.read_bytes())
