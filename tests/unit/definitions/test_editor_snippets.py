"""Snippets of the extension for VS Code: what they write is a worker file without a mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from llm_do_temporal.definitions.check import check_workshop

SNIPPETS = Path(__file__).parents[3] / "editors/vscode/snippets"
CHOICE = re.compile(r"\$\{\d+\|([^,|]+)[^}]*\}")
PLACEHOLDER = re.compile(r"\$\{\w+:([^}]*)\}")
HEAD = "description: Does as it is told.\n"
BODY = "---\nDo as you are told.\n"


def snippets(file: str) -> list[tuple[str, str]]:
    """Prefixes and texts of the snippets of a file, as they are when nothing is changed in them."""
    found: list[tuple[str, str]] = []
    for snippet in json.loads((SNIPPETS / file).read_text(encoding="utf-8")).values():
        body: str | list[str] = snippet["body"]
        text = body if isinstance(body, str) else "\n".join(body)
        found.append((snippet["prefix"], PLACEHOLDER.sub(r"\1", CHOICE.sub(r"\1", text)) + "\n"))
    return found


def problems_of(folder: Path, name: str, text: str) -> list[str]:
    """What `check` says of a workshop with the worker, one that it may call, its class and a text to include."""
    (folder / "workshop.yaml").write_text("model: offline:notes\nsandbox: {root: files}\n", encoding="utf-8")
    (folder / "files/folder").mkdir(parents=True)
    (folder / "PROCEDURE.md").write_text("Step by step.\n", encoding="utf-8")
    (folder / "greeter.worker").write_text(HEAD + BODY, encoding="utf-8")
    result = "from pydantic import BaseModel\n\n\nclass Result(BaseModel):\n    text: str\n"
    (folder / "schemas.py").write_text(result, encoding="utf-8")
    (folder / f"{name}.worker").write_text(text, encoding="utf-8")
    return [str(problem) for problem in check_workshop(folder)]


@pytest.mark.parametrize(("prefix", "text"), snippets("head.json"))
def test_a_snippet_of_the_head_is_right_where_it_stands(tmp_path: Path, prefix: str, text: str) -> None:
    assert prefix
    assert problems_of(tmp_path, "notes", HEAD + text + BODY) == []


@pytest.mark.parametrize(("prefix", "text"), snippets("body.json"))
def test_a_snippet_of_the_body_is_right_where_it_stands(tmp_path: Path, prefix: str, text: str) -> None:
    assert prefix
    assert problems_of(tmp_path, "notes", HEAD + BODY + text) == []


@pytest.mark.parametrize(("prefix", "text"), snippets("worker.json"))
def test_a_snippet_of_a_whole_worker_is_right_where_it_stands(tmp_path: Path, prefix: str, text: str) -> None:
    assert problems_of(tmp_path, "judge" if prefix == "worker-schema" else "notes", text) == []


def test_a_mistake_in_a_snippet_is_found(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "notes", HEAD + "toolset:\n  filesystem: {}\n" + BODY) != []
