"""Images that are built where no registry is reached: which ones, and never in the place of one that was pulled."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.compose.local_images import BASE, LABEL, RECIPES, Image, named_images, project_images, provide

GRAFANA = Image("grafana/grafana", "12.4.3")
DOCKER = """\
#!/bin/sh
echo "$*" >> "$LOG"
case "$*" in
*" inspect "*base*) exit 0;;
"image inspect "*) echo "$LABELLED"; [ -n "$IS_THERE" ];;
"pull "*) [ -n "$REGISTRY" ];;
esac
"""


@pytest.mark.parametrize(
    ("engine", "done", "said"),
    [
        ({"IS_THERE": "yes"}, [], "is there"),
        ({"IS_THERE": "yes", "REGISTRY": "yes"}, [], "is there"),
        ({"REGISTRY": "yes"}, ["pull"], "pulled"),
        ({}, ["pull", "build"], "built here"),
        # The programs in it may be newer than it is.
        ({"IS_THERE": "yes", "LABELLED": "true"}, ["build"], "built here"),
    ],
)
def test_an_image_is_built_only_where_it_can_be_had_in_no_other_way(
    engine: dict[str, str], done: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    for name, value in (engine | {"LOG": str(tmp_path / "log"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    assert provide(GRAFANA) == said
    calls = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [words[0] for words in calls if words[0] in ("pull", "build")] == done
    for words in (words for words in calls if words[0] == "build"):
        assert words[words.index("--tag") + 1] == GRAFANA.name
        assert words[words.index("--label") + 1] == f"{LABEL}=true"
        assert f"BASE={BASE}" in words


def test_what_both_files_name_is_found_once() -> None:
    compose = "image: a/server:${A:-1.2}\nimage: a/server:${A:-1.2}\nimage: ours:0.1.0\nimage: b:${B:-v3}\n"
    dockerfile = "ARG PYTHON=3.12\nFROM python:${PYTHON}-slim AS build\nFROM python:${PYTHON}-slim\n"
    found = named_images(compose, dockerfile)
    assert [image.name for image in found] == ["a/server:1.2", "b:v3", "python:3.12-slim"]
    assert [image.target for image in found] == ["server", "b", "python"]
    assert found[-1].version == "3.12"


def test_there_is_a_recipe_for_every_image_that_the_project_names() -> None:
    recipes = set(re.findall(r"^FROM .* AS ([\w-]+)$", (RECIPES / "Dockerfile").read_text(), re.MULTILINE))
    wanted = [image.target for image in project_images()]
    assert len(wanted) == 8
    assert set(wanted) <= recipes
