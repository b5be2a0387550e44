"""What is taken out of a copy leaves no trace, and what still needs it fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import without_extensions
from scripts.checkout import Done
from scripts.without_extensions import extension_names, main, take_out, try_without, without_keys_of_others

CONTRACTS = """\
[importlinter]
root_packages =
    llm_do_temporal

[importlinter:contract:extensions]
modules =
    llm_do_temporal.extensions.*

[importlinter:contract:rules]
source_modules =
    llm_do_temporal.doors
    llm_do_temporal.extensions.one
ignore_imports =
    llm_do_temporal.extensions.one.command -> llm_do_temporal.definitions
"""
OF_ONE = "a.worker:4: error: 'k': this key is for the extension 'one', which is not installed here"
FILES = {
    ".importlinter": CONTRACTS,
    "llm_do_temporal/__init__.py": "",
    "llm_do_temporal/core.py": "",
    "llm_do_temporal/extensions/__init__.py": "",
    "llm_do_temporal/extensions/one/__init__.py": "",
    "llm_do_temporal/extensions/two/__init__.py": "",
    "tests/unit/test_core.py": "",
    "tests/unit/extensions/one/test_one.py": "",
    "tests/support/extensions/one/door.py": "",
    "tests/unit/extensions/two/test_two.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*.py")}


def test_the_folder_of_an_extension_goes_with_its_tests_and_its_contracts(root: Path) -> None:
    assert extension_names(root) == ["one", "two"]
    take_out(root, ["one"])
    assert files(root) == {name for name in FILES if "/one/" not in name and name.endswith(".py")}
    assert "extensions.one" not in (root / ".importlinter").read_text()
    assert "contract:extensions" in (root / ".importlinter").read_text()
    take_out(root, ["two"])
    assert "contract:extensions" not in (root / ".importlinter").read_text()
    assert "contract:rules" in (root / ".importlinter").read_text()


@pytest.mark.parametrize("imported", ["llm_do_temporal.extensions.one", "llm_do_temporal.extensions.two"])
def test_what_still_imports_an_extension_fails(
    root: Path, imported: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "llm_do_temporal" / "core.py").write_text(f"import {imported}\n")
    every = without_extensions.stages

    def imports_alone(*given: object) -> object:
        yield next(every(*given))  # type: ignore[arg-type]

    monkeypatch.setattr(without_extensions, "stages", imports_alone)
    assert try_without(root, ["one"], ()) is (imported != "llm_do_temporal.extensions.one")
    said = capsys.readouterr().out
    assert said.startswith("ok" if "two" in imported else "FAILED    without one: imports:")
    assert files(root) == {name for name in FILES if name.endswith(".py")}  # the checkout itself is left as it is


def test_an_unknown_name_is_refused(root: Path) -> None:
    with pytest.raises(SystemExit, match="there is no extension 'three'; there are: one, two"):
        main(["--only", "three"], root)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([OF_ONE, "1 error"], 0),
        (
            [
                "a.worker:4: error: 'k': this key is for the extension 'one', which is not installed here",
                "b: error: no",
            ],
            2,
        ),
        (["Traceback (most recent call last):"], 2),
    ],
)
def test_examples_may_have_keys_of_what_is_taken_out_and_no_other_mistakes(lines: list[str], code: int) -> None:
    assert without_keys_of_others(Done(2, "\n".join(lines))).code == code
