"""Renames of workers: every mention, and the reasons for which they are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.lsp.mentions import WorkerRename, plan_rename

FILES = {
    "workshop.yaml": """\
approvals:
  allow:
  - {worker: deck_reader, match: [deck_reader], callers: [chief]}
views: {decks: {worker: deck_reader}}
creation_defaults: {toolsets: {delegation: {allow_workers: [deck_reader]}}}
""",
    "workers/deck_reader.worker": "name: deck_reader\n---\nI am deck_reader, not deck_readers.\n",
    "workers/deck_reader/tools.py": "def f(x: int) -> int:\n    'F.'\n    return x\n",
    "workers/chief.worker": """\
toolsets:
  delegation:
    "deck_reader": {}
    allow_workers: ['deck_reader', other]
---
Call `deck_reader`.
""",
    "workers/other.worker": "description: deck_reader is not named here\n---\nRead.\n",
    "workers/decks.eval.yaml": """\
worker: deck_reader
judge: {worker: other}
cases:
- {name: deck_reader, inputs: deck_reader, decide: [{tool: deck_reader, decision: approve}]}
evaluators:
- Called: deck_reader
- NeverCalled: {worker_path: main/deck_reader-*}
- Contains: deck_reader
""",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def carry_out(plan: WorkerRename) -> None:
    """Do what an editor does with a rename."""
    for edit in sorted(plan.edits, key=lambda one: (one.start.line, one.start.column), reverse=True):
        lines = edit.file.path.read_text().split("\n")
        line = lines[edit.start.line]
        lines[edit.start.line] = f"{line[: edit.start.column]}{plan.name}{line[edit.end.column :]}"
        edit.file.path.write_text("\n".join(lines))
    for old, new in plan.moves:
        old.rename(new)


def test_a_rename_is_whole(root: Path) -> None:
    before = [str(one) for one in check_workshop(root)]
    carry_out(plan_rename("deck_reader", "slides", root, {}))
    assert [str(one).replace("slides", "deck_reader") for one in check_workshop(root)] == before
    left = {
        f"{path.relative_to(root)}:{number}"
        for path in root.rglob("*")
        if path.is_file()
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if re.search(r"\bdeck_reader\b", line)
    }
    # Content is no mention: a case's name and input, a description, an expected word.
    assert left == {"workers/other.worker:1", "workers/decks.eval.yaml:4", "workers/decks.eval.yaml:8"}
    assert "Called: slides" in (root / "workers/decks.eval.yaml").read_text()
    assert "main/slides-*" in (root / "workers/decks.eval.yaml").read_text()
    assert (root / "workers/slides/tools.py").is_file()
    assert "I am slides, not deck_readers." in (root / "workers/slides.worker").read_text()


def test_a_name_that_is_a_word_stays_in_texts(root: Path) -> None:
    write(root, {"workers/notes.worker": "description: Notes\n---\nKeep notes.\n"})
    plan = plan_rename("notes", "memo", root, {})
    assert plan.left == ("workers/notes.worker:3",)
    assert plan.edits == ()


def test_a_worker_in_a_folder_moves_with_it(root: Path) -> None:
    write(root, {"workers/solo/worker.worker": "---\nGo.\n"})
    assert plan_rename("solo", "duo", root, {}).moves == ((root / "workers/solo", root / "workers/duo"),)


@pytest.mark.parametrize(
    ("new", "files", "reason"),
    [
        ("Chief", {}, "not valid"),
        ("shell", {}, "reserved"),
        ("chief", {}, "there is a worker 'chief' already"),
        ("fresh", {"fresh.worker": "---\nx\n"}, "there is a worker 'fresh' already"),
        ("../x", {}, "not valid"),
        ("fresh", {"workers/bad.worker": "a: [\n---\nx\n"}, "not valid YAML"),
        ("fresh", {"tools.py": "import x\nx.call_worker('deck_reader', 'go')\n"}, "tools.py:2 names"),
        ("fresh", {"tools.py": "call_worker('deck_reader', 1)\ndef g(:\n"}, "tools.py' is no valid Python"),
        ("fresh", {"tools.py": "run_worker('deck_' 'reader')"}, "tools.py:1 names"),
        ("fresh", {"tools.py": "start(StartRunInput(worker='deck_reader'))"}, "tools.py:1 names"),
        ("fresh", {"tools.py": "run_worker(Path('workers/deck_reader.worker'))"}, "tools.py:1 names"),
        ("fresh", {"tools.py": "c.call_tool('worker_call', {'worker': 'deck_reader'})"}, "tools.py:1 names"),
        ("fresh", {"tools.py": "#" * 1024 * 1024 + "\ncall_worker('deck_reader', 1)"}, "tools.py' is larger than"),
        (
            "fresh",
            {f"m{n:03}.py": "x = 1\n" for n in range(600)} | {"tools.py": "call_worker('deck_reader', 1)"},
            "tools.py:1 names",
        ),
        (
            "fresh",
            {f"m{n:03}.py": "call_worker('x', 'of deck_reader')\n" for n in range(501)},
            "m500.py' is one Python file too many",
        ),
        ("fresh", {"deck_reader.worker": "---\nx\n"}, "both define"),
        ("fresh", {"workers/fresh/x.md": "x"}, "is there already"),
        ("fresh", {"workers/a.worker": 'toolsets: {delegation: {"deck\\u005freader": {}}}\n---\nx\n'}, "in place"),
        (
            "fresh",
            {"workers/a.worker": "description: &d deck_reader\ntoolsets: {delegation: {allow_workers: [*d]}}\n---\n"},
            "in place",
        ),
    ],
)
def test_a_rename_that_cannot_be_whole_is_refused_with_its_reason(
    root: Path, new: str, files: dict[str, str], reason: str
) -> None:
    write(root, files)
    with pytest.raises(UsageError, match=reason):
        plan_rename("deck_reader", new, root, {})


def test_python_that_only_has_the_word_stops_no_rename(root: Path) -> None:
    half = "NOTE = 'deck_reader'\ndef g(:\n"
    write(root, {"notes.py": half, ".venv/x.py": f"call_worker('deck_reader', 1)\n{half}", "env/pyvenv.cfg": ""})
    write(root, {"env/lib/x.py": "call_worker('deck_reader', 1)\n", "tools.py": "call_worker('other', 'read')\n"})
    assert plan_rename("deck_reader", "fresh", root, {}).name == "fresh"


def test_a_file_behind_a_link_is_not_renamed(root: Path) -> None:
    path = root / "workers/deck_reader.worker"
    path.rename(root / "workers/real.txt")
    path.symlink_to("real.txt")
    with pytest.raises(UsageError, match="is a link"):
        plan_rename("deck_reader", "fresh", root, {})


def test_a_worker_that_is_not_there_is_not_renamed(root: Path) -> None:
    with pytest.raises(UsageError, match="no file of this workshop"):
        plan_rename("nobody", "fresh", root, {})
