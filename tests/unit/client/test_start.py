"""What is known to be wrong before there is a run: files that the workshop does not give."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.start import prepare, template_path
from llm_do_temporal.errors import DefinitionError


def workshop(folder: Path, files: str, asked: str) -> Path:
    """A workshop with one worker, and the `sandbox:` of each."""
    (folder / "workers").mkdir()
    (folder / "src").mkdir()
    (folder / "workshop.yaml").write_text(f"name: my-workshop\n{files}\n", encoding="utf-8")
    (folder / "workers/main.worker").write_text(f"description: x\n{asked}\n---\nDo it.\n", encoding="utf-8")
    return folder


WRITABLE, READONLY, NONE = "sandbox: {root: '.'}", "sandbox: {root: '.', readonly: true}", ""


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        (WRITABLE, ""),
        (WRITABLE, "sandbox: {readonly: true}"),
        (WRITABLE, "sandbox: {readonly: false}"),
        (WRITABLE, "sandbox: {restrict: /src, readonly: true}"),
        (READONLY, ""),
        (READONLY, "sandbox: {readonly: true}"),
        (NONE, ""),
        (NONE, "sandbox: {paths: {input: {root: ./src}}}"),
    ],
)
def test_a_worker_that_narrows_may_be_started(tmp_path: Path, files: str, asked: str) -> None:
    assert prepare(workshop(tmp_path, files, asked), "main").worker.name == "main"


@pytest.mark.parametrize(
    ("files", "asked", "words"),
    [
        (READONLY, "sandbox: {readonly: false}", "'/' is read-only for the caller; a worker cannot make it writable"),
        (READONLY, "sandbox: {paths: {out: {root: out, mode: rw}}}", "asks for mode rw where its caller can only read"),
        (NONE, "sandbox: {restrict: /src}", "asks for files where the caller has none"),
        ("sandbox: {root: src}", "sandbox: {paths: {in: {root: pipeline}}}", "lies outside its caller's files"),
        (WRITABLE, "sandbox: {write_approval: false}", "a worker cannot switch it off"),
    ],
)
def test_one_that_asks_for_more_is_a_mistake_in_its_file(tmp_path: Path, files: str, asked: str, words: str) -> None:
    with pytest.raises(DefinitionError) as wrong:
        prepare(workshop(tmp_path, files, asked), "main")
    assert words in str(wrong.value)
    assert (wrong.value.file, wrong.value.exit_code) == ("workers/main.worker", 8)


@pytest.mark.parametrize(
    ("given", "has_params", "name"),
    [
        # below templates/, from the workshop's folder or from where one is
        ("templates/one.yaml", False, "templates/one.yaml"),
        ("./templates/decks/one.yaml", False, "templates/decks/one.yaml"),
        ("decks/one.yaml", False, "templates/decks/one.yaml"),
        # a file that is not there is looked for by the worker service, which says so
        ("templates/gone.yaml", False, "templates/gone.yaml"),
        # anywhere, with parameters
        ("other/one.yaml", False, None),
        ("other/one.yaml", True, "other/one.yaml"),
        # workers and their files
        ("one", True, None),
        ("workers/main.worker", True, None),
        ("pkg:summarizer.yaml", True, None),
    ],
)
def test_a_yaml_file_is_a_template_by_where_it_lies_or_by_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, has_params: bool, name: str | None
) -> None:
    for file in ("templates/one.yaml", "templates/decks/one.yaml", "other/one.yaml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("system: Judge.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "templates")
    assert template_path(given, tmp_path, has_params=has_params) == name


@pytest.mark.parametrize(("given", "name"), [("templates/one.yaml", "templates/one.yaml"), ("other/one.yaml", None)])
def test_where_no_workshop_is_known_the_path_alone_tells(given: str, name: str | None) -> None:
    assert template_path(given, None, has_params=False) == name
