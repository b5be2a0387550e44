"""Editors at the language server: the real process over its pipes, and Neovim without a screen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lsprotocol import types

from tests.support.extensions.lsp.editor import editor
from tests.support.extensions.lsp.neovim import find_neovim, session, written_transcript

WORKER = "description: Reads 😀\ntoolsets:\n  delegation: {reader: {}}\n---\nRead.\n"


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    root = tmp_path / "work shöp"
    (root / "workers").mkdir(parents=True)
    (root / "workshop.yaml").write_text("models: {fast: offline:echo}\n")
    (root / "workers/chief.worker").write_text(WORKER)
    (root / "workers/reader.worker").write_text("description: Reads one\n---\nRead.\n")
    return root


def test_neovim_shows_what_the_docs_say(tmp_path: Path) -> None:
    program = find_neovim()
    if program is None:
        assert not os.environ.get("CI"), "in CI there has to be a Neovim"
        pytest.skip("NO NEOVIM, the language server is not tried in an editor: install neovim")
    assert session(program, tmp_path) == written_transcript()


async def test_an_editor_is_told_what_check_finds_before_anything_is_saved(workshop: Path) -> None:
    chief = workshop / "workers/chief.worker"
    async with editor(workshop) as at:
        document = at.open(chief)
        assert await at.problems(document) == []
        version = at.type(document, "x: '😀' # 😀\n---\nRead.\n")
        (problem,) = await at.problems(document, version)
    assert problem.message.startswith("unknown key 'x'")
    assert problem.severity == types.DiagnosticSeverity.Error
    assert (problem.range.start, problem.range.end) == (types.Position(0, 0), types.Position(0, 12))
    assert chief.read_text() == WORKER


@pytest.mark.thorough
async def test_an_unsaved_workshop_counts_for_its_workers(workshop: Path) -> None:
    worker = workshop / "workers/reader.worker"
    worker.write_text("model: quick\n---\nRead.\n")
    async with editor(workshop) as at:
        document = at.open(worker)
        assert len(await at.problems(document)) == 1
        at.open(workshop / "workshop.yaml", "models: {quick: offline:echo}\n")
        version = at.type(document, worker.read_text())
        assert await at.problems(document, version) == []


@pytest.mark.thorough
async def test_files_that_are_not_open_are_told_of_and_cleared(workshop: Path) -> None:
    other = workshop / "workers/other.worker"
    other.write_text("nonsense: 1\n---\nRead.\n")
    async with editor(workshop) as at:
        at.open(workshop / "workers/chief.worker")
        assert len(await at.problems_of(other)) == 1
        document = at.open(other)
        version = at.type(document, "description: x\n---\nRead.\n")
        assert await at.problems(document, version) == []


@pytest.mark.thorough
async def test_a_new_file_counts_before_it_is_first_saved(workshop: Path) -> None:
    async with editor(workshop) as at:
        document = at.open(workshop / "workers/new.worker", "descripton: x\n---\nRead.\n")
        (problem,) = await at.problems(document)
    assert "Did you mean 'description'?" in problem.message


@pytest.mark.thorough
async def test_a_worker_outside_any_workshop_is_checked_by_itself(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        document = at.open(tmp_path / "alone.worker", "modle: x\n---\nRead.\n")
        (problem,) = await at.problems(document)
    assert "unknown key 'modle'" in problem.message


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 20), ("utf-16", 18), ("utf-32", 17)])
async def test_columns_are_in_the_units_that_are_agreed_on(workshop: Path, encoding: str, column: int) -> None:
    text = "toolsets:\n  delegation: {'😀': {}, reader: {}}\n---\nRead.\n"
    async with editor(workshop, encodings=(encoding,)) as at:
        document = at.open(workshop / "workers/chief.worker", text)
        place = types.Position(1, column + {"utf-8": 9, "utf-16": 7, "utf-32": 7}[encoding] + 2)
        found = await at.client.text_document_definition_async(types.DefinitionParams(document, place))
    assert isinstance(found, types.Location)
    assert found.uri.endswith("/workers/reader.worker")


@pytest.mark.thorough
async def test_an_editor_that_renames_no_files_is_refused_a_rename(workshop: Path) -> None:
    async with editor(workshop, renames_files=False) as at:
        document = at.open(workshop / "workers/chief.worker")
        with pytest.raises(Exception, match="renames no files"):
            await at.rename(document, 2, 17, "other")


async def test_a_half_written_key_gets_its_offers(workshop: Path) -> None:
    async with editor(workshop) as at:
        document = at.open(workshop / "workers/chief.worker", "description: x\ntoolsets:\n  dele\n---\nRead.\n")
        offers = {one.label: one for one in await at.offered(document, 2, 6)}
        assert "Calls of other workers" in await at.hover(
            at.open(workshop / "workers/reader.worker", "toolsets:\n  delegation: {}\n---\nx\n"), 1, 4
        )
    edit = offers["delegation"].text_edit
    assert isinstance(edit, types.TextEdit)
    assert (edit.range.start.character, edit.range.end.character, edit.new_text) == (2, 6, "delegation: ")


@pytest.mark.thorough
async def test_workers_are_sorted_before_keys(workshop: Path) -> None:
    async with editor(workshop) as at:
        document = at.open(workshop / "workers/chief.worker", "toolsets:\n  delegation:\n    \n---\nRead.\n")
        offers = await at.offered(document, 2, 4)
    shown = [one.label for one in sorted(offers, key=lambda one: one.sort_text or one.label)]
    assert shown == ["chief", "reader", "enabled", "allow_workers", "worker_create", "templates"]
