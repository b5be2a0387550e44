"""What is offered at a place of a file, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.definitions.keys.files import WorkerFile, WorkshopConfig
from llm_do_temporal.extensions.lsp.completions import complete, keys_at
from llm_do_temporal.extensions.lsp.edited_file import MAX_LIVE_CHARS, TextPlace, WorkshopNames, edited_file

DELEGATION = ["enabled", "allow_workers", "worker_create", "templates"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("models: {fast: offline:echo}\n")
    (tmp_path / "tools.py").write_text("def add(a: int) -> int:\n    return a\n\n\ndef zero() -> int:\n    return 0\n")
    for name in ("alpha", "editor", "zeta"):
        (tmp_path / f"workers/{name}.worker").write_text("description: d\n---\nRead.\n")
    return tmp_path


def offered(shop: Path, file: str, marked: str) -> list[str] | None:
    """Words that are offered at `|`, in their order; None where nothing can be told."""
    before, _, behind = marked.rpartition("|")
    edited = edited_file(shop / file, before + behind)
    assert edited is not None
    place = TextPlace(before.count("\n"), len(before.rpartition("\n")[2]))
    found = complete(edited, place, WorkshopNames(edited))
    return None if found is None else [one.word for one in found.words]


@pytest.mark.parametrize(
    ("file", "marked", "names", "keys"),
    [
        ("workers/editor.worker", "toolsets:\n  delegation:\n    |", ["alpha", "editor", "zeta"], DELEGATION),
        ("workers/editor.worker", "toolsets:\n  delegation: {|}", ["alpha", "editor", "zeta"], DELEGATION),
        ("workers/editor.worker", "toolsets:\n  delegation:\n    zeta: {}\n    |", ["alpha", "editor"], DELEGATION),
        ("workers/editor.worker", "toolsets:\n  custom:\n    |", ["add", "zero"], ["enabled"]),
        ("x.eval.yaml", "judge:\n  |", ["alpha", "editor", "zeta"], ["worker", "model", "shows", "scores", "against"]),
    ],
)
def test_workers_and_functions_come_before_keys(
    shop: Path, file: str, marked: str, names: list[str], keys: list[str]
) -> None:
    assert offered(shop, file, marked) == [*names, *keys]


def test_keys_come_before_models(shop: Path) -> None:
    words = offered(shop, "workshop.yaml", "models:\n  a:\n    |")
    assert words is not None
    assert words.index("model") < words.index("price") < words.index("anthropic:")


@pytest.mark.parametrize("marked", ["name: |", "name: ed|", "description: x\nname:\n  |"])
def test_the_name_of_a_worker_is_that_of_its_file(shop: Path, marked: str) -> None:
    assert offered(shop, "workers/editor.worker", marked) == ["editor"]


@pytest.mark.parametrize(
    "marked", ["|---", "---|", "---\n---|", "description: x\n|---\nRead.\n", "\n--|-  \nmodel: x\n"]
)
def test_nothing_is_offered_on_the_line_between(shop: Path, marked: str) -> None:
    assert offered(shop, "workers/editor.worker", marked) is None


def test_nothing_is_offered_in_a_text_that_is_too_long_to_look_at(shop: Path) -> None:
    long = f"description: {'x' * MAX_LIVE_CHARS}\n"
    assert offered(shop, "workers/editor.worker", f"{long}mod|") is None
    assert offered(shop, "workers/editor.worker", f"mod|\n---\n{long}") is not None


@pytest.mark.parametrize(("kind", "model"), [("worker", WorkerFile), ("workshop", WorkshopConfig)])
def test_completion_has_every_key(kind: str, model: Any) -> None:
    assert set(keys_at(kind, ())) == set(model.model_fields)
    assert all(one.meaning for one in keys_at(kind, ()).values())


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        ("worker", ("toolsets",), "shell"),
        ("worker", ("toolsets", "delegation"), "allow_workers"),
        ("worker", ("toolsets", "custom", "shout"), "pre_approved"),
        ("worker", ("toolsets", "mcp", "notes"), "headers_env"),
        ("worker", ("toolsets", "shell", "rules", 3), "pattern"),
        ("worker", ("server_side_tools", 0), "max_uses"),
        ("workshop", ("approvals", "rules", "worker.call"), "quorum"),
        ("workshop", ("models", "fast"), "base_url"),
        ("workshop", ("models", "fast", "price"), "cache_read"),
        ("workshop", ("creation_defaults", "toolsets", "shell"), "network"),
        ("workshop", ("notify", 0), "secret_env"),
        pytest.param("eval", ("cases", 0, "decide", 1), "times", marks=pytest.mark.extension("evaluations")),
        pytest.param("eval", ("evaluators", 0, "Called"), "at_most", marks=pytest.mark.extension("evaluations")),
        pytest.param("eval", ("judge",), "scores", marks=pytest.mark.extension("evaluations")),
    ],
)
def test_inner_keys_are_known_at_their_place(kind: str, path: tuple[str | int, ...], key: str) -> None:
    assert keys_at(kind, path)[key].meaning
