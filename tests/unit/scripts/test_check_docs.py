"""Each check of the documentation lets good pages pass and names a planted fault with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_docs
from scripts.check_docs import Fault

COMMANDS = {"start", "approvals"}

GOOD_PAGE = """\
# Run a *worker* in `dev`

See [the guide](docs/guide.md), [its end](docs/guide.md#the-end), [above](#run-a-worker-in-dev),
[elsewhere](https://example.org/x), [mail](mailto:a@example.org), ![picture](docs/a%20b.svg "Title"),
[by reference][ref] and what is no link: `[x](nowhere.md)`. Run `llm-do-temporal start greeter`.

[ref]: <docs/guide.md#the-end-1>

```bash
llm-do-temporal approvals  # llm-do-temporal says what waits
pip install llm-do-temporal
llm-do-temporal --help
[x](nowhere.md)
```

- an indented block

  ```yaml
  name: greeter
  model: test
  ---
  You greet: always, [like this]{.
  ```

```python
result = await client.start("greeter")
```
"""


def write_project(root: Path, readme: str) -> Path:
    (root / "docs").mkdir()
    (root / "docs" / "guide.md").write_text("# Guide\n\n## The end\n\n[home](../README.md)\n\n## The end\n")
    (root / "docs" / "a b.svg").touch()
    (root / "README.md").write_text(readme)
    return root


def faults_of(root: Path) -> list[Fault]:
    return check_docs.check_docs(root, lambda: COMMANDS)


def test_a_good_page_has_no_faults(tmp_path: Path) -> None:
    assert faults_of(write_project(tmp_path, GOOD_PAGE)) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[x](docs/gone.md)", 1, 'the link "docs/gone.md" leads nowhere'),
        ("\n![x](gone.png)", 2, 'the link "gone.png" leads nowhere'),
        ("[![x](gone.png)](docs/guide.md)", 1, 'the link "gone.png" leads nowhere'),
        ("[r]: gone.md", 1, 'the link "gone.md" leads nowhere'),
        ("[x](#gone)", 1, 'names the anchor "gone"'),
        ("[x](docs/guide.md#the-end-2)", 1, 'names the anchor "the-end-2", which guide.md does not have'),
        ("[x](/docs/guide.md)", 1, "is absolute"),
        ("[x](../)", 1, "leaves the project"),
        ("```yaml\na: [1\n```", 2, "the yaml block does not parse"),
        ("~~~yaml\na: b: c\n~~~", 2, "the yaml block does not parse"),
        ("```python\nx = 1\ndef f(:\n```", 3, "the python block does not compile"),
        ("Run `llm-do-temporal strat w`.", 1, 'there is no command "llm-do-temporal strat"; there are: approvals, st'),
        ("```bash\n$ llm-do-temporal stop\n```", 2, 'there is no command "llm-do-temporal stop"'),
    ],
)
def test_a_planted_fault_is_named(tmp_path: Path, text: str, line: int, message: str) -> None:
    (fault,) = faults_of(write_project(tmp_path, text + "\n"))
    assert (fault.path.name, fault.line) == ("README.md", line)
    assert message in str(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`errors.py`, `llm_do_temporal/errors.py::Refusal`, `errors.py::LARGEST`, `*.py`", None),
        ("`policy/gone.py`", 'there is no module "policy/gone.py"'),
        ("`errors.py::gone`", 'there is no "gone" in "errors.py"'),
    ],
)
def test_code_that_is_not_there_is_named(tmp_path: Path, text: str, fault: str | None) -> None:
    root = write_project(tmp_path, "The README may say `nowhere.py`.\n")
    (root / "llm_do_temporal").mkdir()
    (root / "llm_do_temporal" / "errors.py").write_text("LARGEST = 1\n\n\nclass Refusal(Exception): ...\n")
    (root / "docs" / "architecture.md").write_text(f"Text.\n\n{text}\n")
    assert [str(one) for one in faults_of(root)] == ([f"{root}/docs/architecture.md:3: {fault}"] if fault else [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`test_keys.py::test_one`, `::test_two`, `tests/unit/test_paths.py`, `test_keys.py`", None),
        ("`check_disk.py::test_one`", None),
        ("`test_gone.py`", "test_gone.py"),
        ("`check_disk.py::test_two`", "check_disk.py::test_two"),
        ("`test_keys.py::test_three`", "test_keys.py::test_three"),
        ("`test_keys.py::test_one`, `::test_three`", "::test_three"),
    ],
)
def test_a_test_that_is_not_there_is_named(tmp_path: Path, text: str, fault: str | None) -> None:
    root = write_project(tmp_path, f"{text}\n")
    (root / "tests" / "security").mkdir(parents=True)
    (root / "tests" / "security" / "test_keys.py").write_text("def test_one(): ...\nasync def test_two(): ...\n")
    (root / "tests" / "unit").mkdir()
    (root / "tests" / "unit" / "test_paths.py").touch()
    (root / "tests" / "cluster" / "faults").mkdir(parents=True)
    (root / "tests" / "cluster" / "faults" / "check_disk.py").write_text("def test_one(): ...\n")
    expected = [f'{root}/README.md:1: there is no test "{fault}"'] if fault else []
    assert [str(one) for one in faults_of(root)] == expected


@pytest.mark.parametrize("page", ["CHANGELOG.md", "CONTRIBUTING.md", "docs/deep/down.md"])
def test_every_page_is_read(tmp_path: Path, page: str) -> None:
    root = write_project(tmp_path, "# Nothing\n")
    (root / page).parent.mkdir(exist_ok=True)
    (root / page).write_text("[x](gone.md)\n")
    (fault,) = faults_of(root)
    assert str(fault) == f'{root / page}:1: the link "gone.md" leads nowhere'


def test_the_check_exits_1_and_prints_each_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_docs, "load_commands", lambda: COMMANDS)
    root = write_project(tmp_path, "[x](gone.md)\n")
    assert check_docs.main([str(root)]) == 1
    assert capsys.readouterr().out == f'{root / "README.md"}:1: the link "gone.md" leads nowhere\n'
    (root / "README.md").write_text(GOOD_PAGE)
    assert check_docs.main([str(root)]) == 0


def test_a_program_that_lists_no_commands_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_docs, "COMMANDS_MODULE", "llm_do_temporal.no_such_module")
    with pytest.raises(SystemExit, match=r"can't list the commands of llm-do-temporal: No module named"):
        check_docs.load_commands()
    monkeypatch.setattr(check_docs, "COMMANDS_MODULE", "json")
    with pytest.raises(SystemExit, match="has no attribute 'COMMANDS'"):
        check_docs.load_commands()
