"""What isolated commands see of state of the product, and of a workshop among the system's folders; what they make."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.sandbox import bubblewrap, mounts
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from tests.support.workshops.hostile_commands import FILES, SECRET, WHOLE, Ground

BWRAP = working_bwrap()
pytestmark = pytest.mark.skipif(BWRAP is None, reason="commands cannot be isolated on this machine")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "workshop", BWRAP)


READONLY = Tree(mounts=(Mount(at="/", root="files", base="files", readonly=True),))
STATES = [
    (WHOLE, "inner/.llm-do"),
    (WHOLE, "files/.llm-do"),
    (WHOLE, "files/deep/er/.LLM-DO"),
    (WHOLE, "workers/.llm-do"),
    (WHOLE, "lib/pkg/.llm-do"),
    (WHOLE, ".git/modules/x/.llm-do"),
    (WHOLE, "tools.py.d/x.py/.llm-do"),
    (WHOLE, ".Llm-Do/.llm-do/blobs"),
    (FILES, ".llm-do"),
    (FILES, "in/.llm-do/blobs"),
    (FILES, "in/.Llm-Do"),
    (FILES, "in/.git/.llm-do"),
    (FILES, "in/x.worker/.llm-do"),
    (FILES, "in/\N{FULLWIDTH LATIN SMALL LETTER L}x/.l\N{FULLWIDTH LATIN SMALL LETTER L}m-do"),
    (FILES, "/".join(["d"] * (mounts.MAX_DEPTH + 2)) + "/.llm-do"),
    (READONLY, ".llm-do"),
    (READONLY, "in/.llm-do/blobs"),
    (READONLY, "in/.LLM-do"),
    (READONLY, "in/.git/.llm-do"),
    (READONLY, "/".join(["d"] * (mounts.MAX_DEPTH + 2)) + "/.llm-do"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("tree", "at"), STATES)
async def test_no_command_reads_state_wherever_it_lies(tmp_path: Path, tree: Tree, at: str) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, tree)
    state = ground.folder / ("." if tree is WHOLE else "files") / at
    state.mkdir(parents=True)
    (state / "host.json").write_text(SECRET)
    (ground.folder / ".env").unlink()
    moved = f"mv '{at}' found; mv '{at.split('/')[0]}' found2; chmod -R 777 ."
    result = await ground.script(f"cat '{at}/host.json'; {moved}; grep -r . . found found2; find / -name host.json")
    assert SECRET not in result.stdout.text
    assert "host.json" not in result.stdout.text
    assert (state / "host.json").read_text() == SECRET


@pytest.mark.parametrize("path", ["/in", "/in/.llm-do", "/in/.llm-do/host.json", "/in/.llm-do/blobs"])
async def test_no_part_of_the_tree_shows_state(tmp_path: Path, path: str) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, FILES)
    state = ground.folder / "files/in/.llm-do"
    (state / "blobs").mkdir(parents=True)
    for file in (state / "host.json", state / "blobs/x"):
        file.write_text(SECRET)
    with suppress(ApplicationError):  # some are refused before they run
        result = await ground.script("cd /llm-do; grep -r . .; cat /in/.llm-do/host.json", sandbox_paths=(path,))
        assert SECRET not in result.stdout.text


@pytest.mark.parametrize("tree", [FILES, READONLY], ids=["files", "read-only"])
@pytest.mark.parametrize(("limit", "value"), [("MAX_ENTRIES", 8), ("MAX_DEPTH", 1), ("MAX_HIDDEN", 2)])
async def test_what_was_not_looked_at_is_hidden_and_that_is_said(
    tmp_path: Path, tree: Tree, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, tree)
    for name in "abcdef":
        state = ground.folder / f"files/{name}/in/.llm-do"
        state.mkdir(parents=True)
        (state / "host.json").write_text(SECRET)
    monkeypatch.setattr(mounts, limit, value)
    result = await ground.run("grep", "-r", ".", "/llm-do")
    assert SECRET not in result.stdout.text + result.stderr.text
    assert "hidden" in (result.note or "")


async def test_a_name_of_any_bytes_can_be_said(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, FILES)
    deep = os.fsencode(ground.folder / "files") + b"/bad\xff" + b"/d" * (mounts.MAX_DEPTH + 1)
    Path(os.fsdecode(deep)).mkdir(parents=True)  # noqa: ASYNC240 - a test
    result = await ground.run("true")
    assert "bad\N{REPLACEMENT CHARACTER}" in (result.note or "")
    assert result.model_dump_json()


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that lies below no other that commands get anew, such as /tmp."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["app/.env", "app/.llm-do/host.json", "app/workers/secret.worker"])
@pytest.mark.parametrize("linked", [False, True], ids=["there", "by a link"])
async def test_a_workshop_among_the_folders_of_the_system_shows_its_files_only(
    elsewhere: Path, name: str, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = elsewhere / "system"
    ground = Ground(system / "app", BWRAP, FILES)
    (system / name).write_text(SECRET)
    if linked:
        (elsewhere / "etc").symlink_to("system")
        monkeypatch.setattr(bubblewrap, "_ETC", (*bubblewrap._ETC, f"..{elsewhere}/etc"))  # pyright: ignore[reportPrivateUsage]
        system = elsewhere / "etc"
    else:
        monkeypatch.setattr(bubblewrap, "_SYSTEM_FOLDERS", (*bubblewrap._SYSTEM_FOLDERS, str(system)))  # pyright: ignore[reportPrivateUsage]
    result = await ground.script(f"cat data.txt; ls {system}; cat {system}/{name}; grep -r . {system}/app")
    assert result.stdout.text == "data\napp\noutside.txt\n", result.stderr.text


PYTHON = ["plugins/evil.py", "plugins/evil/__init__.py", "docs/evil.py", "src/evil.so"]


@pytest.mark.parametrize(
    ("path", "overlays"),
    [*((path, True) for path in PYTHON), *((path, False) for path in (*PYTHON, "docs/new.txt", "new/a.txt"))],
)
async def test_where_workers_have_no_folder_of_their_own_no_python_is_made(
    ground: Ground, path: str, overlays: bool
) -> None:
    ground.overlays = overlays
    (ground.folder / "workshop.yaml").write_text("name: test\nsandbox: {root: .}\n")
    (ground.folder / "plugins").mkdir()
    await ground.script(f"mkdir -p $(dirname {path}); echo 'x = 1' > {path}; mv notes.md {path}; ln src/a.txt {path}")
    assert not (ground.folder / path).exists()
    assert ground.changed() == {"workshop.yaml"}


@pytest.mark.sampled(3)
@pytest.mark.control
@pytest.mark.parametrize(
    "left",
    [
        "touch x.worker",
        "touch workshop.yaml sub/workshop.yml",
        "ln -s / .git",
        "ln -s / sub/.llm-do",
        "ln -s data.txt y.worker",
        "mkfifo .git",
        "mkdir x.worker && touch x.worker/y.worker",
        "mkdir -p .llm-do/deep",
        "for n in $(seq 300); do touch $n.worker; done",
        "python3 -c \"import os\nfor n in range(200): os.mkdir('d'); os.chdir('d')\"",
    ],
)
async def test_what_one_command_leaves_does_not_stop_the_next(tmp_path: Path, left: str) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, FILES)
    assert (await ground.script(left)).exit_code == 0
    result = await ground.script("echo y > new.txt && echo z > sub/new.txt && cat new.txt")
    assert (result.stdout.text, result.stderr.text) == ("y\n", "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "last", ["os.mkdir('.git')", "open('x.worker', 'w')", "open('.git', 'w')", "os.mkdir('.llm-do')"]
)
@pytest.mark.parametrize(("depth", "letters"), [(25, 200), (15, 200), (60, 60), (95, 40)])
async def test_no_path_is_too_long_for_the_next_command(tmp_path: Path, depth: int, letters: int, last: str) -> None:
    ground = Ground(tmp_path / "workshop", BWRAP, FILES)
    made = f"import os\nfor n in range({depth}): os.mkdir('d' * {letters}); os.chdir('d' * {letters})\n{last}"
    assert (await ground.run("python3", "-c", made)).exit_code == 0
    result = await ground.script("echo y > new.txt && mkdir -p fresh && rm -r fresh && cat new.txt")
    assert (result.stdout.text, result.stderr.text) == ("y\n", "")
    assert result.note is not None
    assert "read-only here or hidden" in result.note
