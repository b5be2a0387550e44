"""The import contracts hold for the project, and each of them is broken by the import it is there to stop."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("llm_do_temporal", "worker_service")
LINTER = Path(sys.executable).with_name("lint-imports")

NEEDED = pytest.mark.extension("acp", "mcp")
VIOLATIONS: list[Any] = [
    # contract, the module that gets an import it must not have, that import
    ("layers", "llm_do_temporal.activities", "llm_do_temporal.service"),
    ("layers", "worker_service", "llm_do_temporal.cli"),
    ("workflows-rooms", "llm_do_temporal.workflows.runtime", "llm_do_temporal.workflows.tools"),
    ("workflows-rooms", "llm_do_temporal.workflows.tools", "llm_do_temporal.workflows.invocation"),
    ("client-rooms", "llm_do_temporal.client.history", "llm_do_temporal.client.views"),
    ("cli-rooms", "llm_do_temporal.cli.terminal", "llm_do_temporal.cli.commands"),
    pytest.param("extensions", "llm_do_temporal.extensions.acp", "llm_do_temporal.extensions.mcp", marks=NEEDED),
    ("layers", "llm_do_temporal.cli", "llm_do_temporal.extensions"),
    ("doors-rooms", "llm_do_temporal.doors.principal", "llm_do_temporal.doors.service"),
    ("doors-rules", "llm_do_temporal.doors.http", "llm_do_temporal.policy.approvals"),
    ("ui-rooms", "llm_do_temporal.ui.content", "llm_do_temporal.ui.pages"),
    ("activities-rooms", "llm_do_temporal.activities.runtime", "llm_do_temporal.activities.models"),
    ("definitions-rooms", "llm_do_temporal.definitions.yaml", "llm_do_temporal.definitions.registry"),
    ("cli", "llm_do_temporal.cli", "llm_do_temporal.workflows"),
    ("cli", "llm_do_temporal.cli", "pydantic_ai"),
    ("client", "llm_do_temporal.client", "llm_do_temporal.activities"),
    ("client", "llm_do_temporal.client", "pydantic_ai"),
    ("workflows", "llm_do_temporal.workflows", "random"),
    ("terminal", "llm_do_temporal.activities", "rich"),
    ("definitions", "llm_do_temporal.definitions", "temporalio"),
    ("messages", "llm_do_temporal.messages", "temporalio"),
    ("messages", "llm_do_temporal.json_schema", "pydantic_ai"),
    ("policy", "llm_do_temporal.policy", "os"),
    ("policy", "llm_do_temporal.policy", "jinja2"),
    ("errors", "llm_do_temporal.errors", "pydantic"),
]


def read_contracts() -> dict[str, str]:
    """The contracts of the project: key and name."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter")
    prefix = "importlinter:contract:"
    return {title.removeprefix(prefix): config[title]["name"] for title in config.sections() if prefix in title}


def as_package(root: Path, module: str) -> Path:
    """Make a module a package, creating it when it is missing, so that something can be planted beside it."""
    folder = root.joinpath(*module.split("."))
    if not (folder / "__init__.py").exists():
        folder.mkdir(exist_ok=True)
        source = folder.with_suffix(".py")
        (folder / "__init__.py").write_text(source.read_text() if source.exists() else "")
        source.unlink(missing_ok=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the two packages, with an empty module for every layer that a contract names and nobody wrote yet."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for module in sorted(set(re.findall(r"llm_do_temporal\.\w+", (ROOT / ".importlinter").read_text()))):
        if not tmp_path.joinpath(*module.split(".")).with_suffix(".py").exists():
            as_package(tmp_path, module)
    return tmp_path


def broken_contracts(project: Path) -> set[str]:
    command = [str(LINTER), "--no-cache", "--no-logo"]
    result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    verdicts = dict(re.findall(r"^(\S.*?)\s*(KEPT|BROKEN)(?: \(.*\))?$", text, re.MULTILINE))
    assert set(verdicts) == set(read_contracts().values()), result.stdout + result.stderr
    broken = {name for name, verdict in verdicts.items() if verdict == "BROKEN"}
    assert (result.returncode != 0) == bool(broken)
    return broken


def test_the_project_keeps_every_contract(project: Path) -> None:
    assert broken_contracts(project) == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("contract", "module", "imported"), VIOLATIONS)
def test_a_planted_import_breaks_its_contract_and_no_other(
    project: Path, contract: str, module: str, imported: str
) -> None:
    # A new file that nobody imports: a plant in a file that others import would break their contracts as well.
    (as_package(project, module) / "planted.py").write_text(f"import {imported}\n")
    assert broken_contracts(project) == {read_contracts()[contract]}


def _values(case: Any) -> tuple[str, str, str]:
    return getattr(case, "values", case)


def test_every_contract_has_a_planted_violation() -> None:
    assert {contract for contract, _, _ in map(_values, VIOLATIONS)} == set(read_contracts())
