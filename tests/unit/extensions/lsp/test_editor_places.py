"""Files of definitions in an editor: problems, places, what is offered and explained, and renames that are whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.keys.files import WorkerFile, WorkshopConfig
from llm_do_temporal.definitions.yaml.documents import Problem
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.lsp.completions import complete, keys_at
from llm_do_temporal.extensions.lsp.edited_file import (
    MAX_LIVE_CHARS,
    TextPlace,
    WorkshopNames,
    cursor_at,
    edited_file,
    find_problems,
    spans,
)
from llm_do_temporal.extensions.lsp.mentions import WorkerRename, plan_rename
from llm_do_temporal.extensions.lsp.server import path_of, place_at, position_of

KeyPath = tuple[str | int, ...]


@pytest.mark.parametrize(
    ("text", "around", "value"),
    [
        ("|", (), ()),
        ("des|", (), ()),
        ("a: 1\nmod|", (), ()),
        ("model: an|", None, ("model",)),
        ("model: |", None, ("model",)),
        ("toolsets:\n  del|", ("toolsets",), ("toolsets",)),
        ("toolsets:\n  filesystem: {}\n  |", ("toolsets",), ("toolsets",)),
        ("toolsets: {filesystem: {}, de|}", ("toolsets",), None),
        ("a:\n  b: [x, y|]", ("a", "b", 1), ("a", "b", 1)),
        ("notify:\n- to: x\n  ch|", ("notify", 0), None),
        ("cases:\n  - name: a\n    inp|", ("cases", 0), None),
        # A neighbour that is broken does no harm.
        ("broken: [\ntoolsets:\n  cus|", ("toolsets",), ("toolsets",)),
        ("toolsets:\n  x: 'no end\n  cus|", ("toolsets",), ("toolsets",)),
    ],
)
def test_what_may_be_written_is_known_where_it_is_written(
    text: str, around: KeyPath | None, value: KeyPath | None
) -> None:
    cursor = at_mark(text)
    assert cursor is not None
    assert (cursor.around, cursor.value) == (around, value)


@pytest.mark.parametrize("text", ["# co|", 'x: "no|', "\ttab|", "a: >\n  long te|", "a: {{{: ]|"])
def test_nothing_is_offered_where_nothing_can_be_told(text: str) -> None:
    assert at_mark(text) is None


def at_mark(text: str):
    before, _, behind = text.rpartition("|")
    lines = (before + behind).split("\n")
    return cursor_at(lines, TextPlace(before.count("\n"), len(before.rpartition("\n")[2])))


def test_what_stands_above_a_mistake_is_known() -> None:
    found = [(one.path, one.role, one.text) for one in spans("a: 'x'\nb: [1, &q foo, *q]\nc: {d: e}\nf: [}\ng: 1\n")]
    assert (("b", 1), "value", "foo") in found
    assert (("c", "d"), "key", "d") in found
    assert not any(path == ("g",) for path, _, _ in found)


@pytest.mark.parametrize(
    ("written", "exact"), [("foo", "foo"), ("'foo'", "foo"), ('"foo"', "foo"), ("&a foo", "foo"), ('"f\\u006fo"', None)]
)
def test_the_text_of_a_value_is_found_within_its_quotes(written: str, exact: str | None) -> None:
    text = f"key: {written} # foo"
    (value,) = [one for one in spans(text) if one.role == "value"]
    assert value.text == "foo"
    assert (text[slice(*value.exact)] if value.exact else None) == exact


@pytest.mark.parametrize(
    ("encoding", "character", "column"),
    [("utf-16", 3, 2), ("utf-16", 4, 3), ("utf-8", 5, 2), ("utf-32", 2, 2), ("utf-16", 99, 4), ("utf-16", 2, 1)],
)
def test_columns_are_counted_in_the_editors_units(encoding: str, character: int, column: int) -> None:
    assert place_at(["a😀bc"], types.Position(0, character), encoding) == TextPlace(0, column)


def test_places_beyond_the_text_are_its_end() -> None:
    assert place_at(["ab", "c"], types.Position(9, 9), "utf-16") == TextPlace(1, 1)
    assert position_of(["ab"], TextPlace(5, 3), "utf-16") == types.Position(5, 0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_file_whatever_ends_them(tmp_path: Path, end: str) -> None:
    file = edited_file(tmp_path / "a.worker", end.join(["\ufeff---", "model: x", "---", "Read.", ""]))
    assert file is not None
    assert file.lines[1] == "model: x"
    assert file.span_at(TextPlace(1, 7)) == file.spans[1]
    assert file.body_line == 3


@pytest.mark.parametrize("uri", ["untitled:x.worker", "http://x/a.worker", "file://host/a.worker", "", "file:", "%00"])
def test_only_files_of_this_machine_have_a_path(uri: str) -> None:
    assert path_of(uri) is None


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    (tmp_path / "workshop.yaml").write_text("models: {fast: offline:echo}\n")
    (tmp_path / "workers").mkdir()
    return tmp_path / "workers/broken.worker"


def told(worker: Path, text: str) -> list[Problem]:
    """What is told of the worker while an editor shows this text."""
    edited = edited_file(worker, text)
    assert edited is not None
    return find_problems(edited.root, {edited.path: edited})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "there are no instructions"),
        ("\n\n \n", None, "there are no instructions"),
        ("---", None, "there are no instructions"),
        ("---\n---\n", None, "there are no instructions"),
        ("---\ndescription: x\n", 2, "there are no instructions"),
        ("Read the deck.\nThen say: what is it?\n", 2, "A worker file is keys"),
        ("Read the deck.\n", 1, "A worker file is keys"),
        ("description:x\nmodel:fast\n---\nRead.\n", 1, "a colon and a space"),
        ("description: true\n---\nRead.\n", 1, "In quotes it is text"),
        ("toolsets:\n\tdelegation: {}\n---\nRead.\n", 2, "spaces in place of tabs"),
        ("description: x\nmodel: fast\ndescription: y\n---\nRead.\n", 3, "already stands in line 1"),
        (f"description: ok\nmodel: {'x' * 50_000}\n---\nRead.\n", 2, "neither an alias"),
    ],
)
def test_a_new_user_is_told_what_to_do(
    worker: Path, text: str, mark: str, end: str, line: int | None, words: str
) -> None:
    content = f"{mark}{text}".replace("\n", end)
    worker.write_bytes(content.encode())
    (problem,) = told(worker, content)
    assert problem.line == line
    assert words in f"{problem.message} {problem.next_step}"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("latin-1", "description: café\n---\nRead.\n"),
        ("latin-1", "description: caf\ufffd\n---\nx\n"),
        ("utf-16", "description: x\n---\nx\n"),
    ],
)
def test_a_file_that_only_an_editor_can_read_is_told_of(worker: Path, encoding: str, shown: str) -> None:
    worker.write_bytes("description: café\n---\nRead.\n".encode(encoding))
    (problem,) = told(worker, shown)
    assert (problem.message, problem.next_step) == (
        "'workers/broken.worker' is not UTF-8 text (line 1)",
        "Save it as UTF-8.",
    )
    worker.write_text("description: café\n---\nRead.\n", "utf-8")
    assert told(worker, shown) == []


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
