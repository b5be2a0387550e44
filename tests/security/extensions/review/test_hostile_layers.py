"""Hostile layers: what a command leaves behind, what a layer says of itself, and a base that moves under a commit."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.extensions.review.commit import CommitOutcome, LayerCommit
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerEntry, LayerNode, NodeKind, layer_of, link_node
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.extensions.review.reviewed import UnsyncedDisk
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, seen, text_file
from tests.support.workshops.upper_folders import Upper, upper_over_base

SHARED = Protection(shared=("data",))


@pytest.fixture
def upper(tmp_path: Path) -> Generator[Upper]:
    with upper_over_base(tmp_path) as one:
        yield one


def _fifo(upper: Upper) -> None:
    os.mkfifo(upper.folder / "bad")


def _device(upper: Upper) -> None:
    # A device of the kind that deletes, but another one.
    if os.geteuid() == 0:
        os.mknod(upper.folder / "bad", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    else:
        _fifo(upper)


def _socket(upper: Upper) -> None:
    here = Path.cwd()
    os.chdir(upper.folder)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("bad")
    finally:
        os.chdir(here)


def _no_utf8(upper: Upper) -> None:
    (Path(os.fsdecode(os.fsencode(upper.folder) + b"/\xff"))).touch()


def _marked(mark: str) -> Callable[[Upper], None]:
    def put(upper: Upper) -> None:
        os.setxattr(upper.put("bad"), f"user.overlay.{mark}", b"x")

    return put


def _marked_folder(upper: Upper) -> None:
    (upper.folder / "bad").mkdir()
    os.setxattr(upper.folder / "bad", "user.overlay.redirect", b"/src")


HOSTILE: dict[str, tuple[Callable[[Upper], object], str]] = {
    "pipe": (_fifo, "'bad' is neither a file nor a link nor a folder"),
    "device": (_device, "'bad' is neither a file nor a link nor a folder"),
    "socket": (_socket, "'bad' is neither a file nor a link nor a folder"),
    "set-user-id": (lambda upper: upper.put("bad", mode=0o4755), "'bad' would run with other rights"),
    "set-group-id": (lambda upper: upper.put("bad", mode=0o2755), "'bad' would run with other rights"),
    "moved content": (_marked("metacopy"), "'bad' is only a reference"),
    "moved file": (_marked("redirect"), "'bad' is only a reference"),
    "marked as deleted": (_marked("whiteout"), "'bad' is only a reference"),
    "moved folder": (_marked_folder, "'bad' is only a reference"),
    "no UTF-8": (_no_utf8, r"the name of '\xff' is not UTF-8"),
    "link to no UTF-8": (
        lambda upper: (upper.folder / "bad").symlink_to(os.fsdecode(b"\xff")),
        "the text of the link 'bad' is empty, is not UTF-8",
    ),
    "own state": (lambda upper: upper.put(".llm-do/x"), "keeps for its own files"),
    "own state in other capitals": (lambda upper: upper.put("src/.LLM-do/x"), "keeps for its own files"),
    "file that is being written": (lambda upper: upper.put(".llm-do-0123456789abcdef.tmp"), "keeps for its own files"),
    "too large": (lambda upper: upper.put("bad", "x" * 1001), "'bad' has more than the 1000 bytes"),
    "2 GB": (lambda upper: os.truncate(upper.put("bad"), 2 << 30), "'bad' has more than the 1000 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_layer_can_hold_is_refused_by_name_and_with_it_all_of_the_command(upper: Upper, name: str) -> None:
    upper.put("good")
    put, says = HOSTILE[name]
    put(upper)
    with pytest.raises(SandboxRefusal) as refusal:
        upper.read()
    assert str(refusal.value).startswith("nothing that the command wrote was taken over: ")
    assert says in str(refusal.value)
    str(refusal.value).encode()


def _packed(path: str, now: str | None, was: str | None = None) -> str:
    return json.dumps({"by": [["main", 1]], "at": {path: [0, now, was]}})


FILE = text_file("x").text()
SAID: list[str] = [
    _packed("../outside", FILE),
    _packed("/etc/passwd", FILE),
    _packed("data/../../x", FILE),
    _packed("data//x", FILE),
    _packed(".", FILE),
    _packed("", FILE),
    _packed("data/\x00", FILE),
    _packed("data/\ud800", FILE),
    _packed(".llm-do/server.db", FILE),
    _packed(".LLM-DO/x", FILE),
    _packed("\uff0ellm-do/x", FILE),
    _packed("data/.llm-do-0123456789abcdef.tmp", FILE),
    _packed("data/" + "n" * 300, FILE),
    _packed("data/x", text_file("x", 0o4755).text()),
    _packed("data/x", text_file("x", 0o2755).text()),
    _packed("data/x", text_file("x", 0o1755).text()),
    _packed("data/x", "f644 not-a-digest 1"),
    _packed("data/x", f"f644 {'a' * 64} -1"),
    _packed("data/x", f"f644 {'a' * 64} 1 ../../blob"),
    _packed("data/x", "l"),
    _packed("data/x", "l" + "x" * 5000),
    _packed("data/x", "c0 0"),
    _packed("data/x", "d4755"),
    json.dumps({"by": [["main", 1]], "at": {"l": [0, "l/etc", None], "l/passwd": [0, FILE, None]}}),
    json.dumps({"by": [["main", 1]], "at": {"d": [0, None, "d755"], "d/x": [0, FILE, None]}}),
    json.dumps({"by": [["main", 1]], "at": {"f": [0, FILE, None], "f/x": [0, FILE, None]}}),
    json.dumps({"by": [["main", 1]], "at": {f"f{n}": [0, FILE, None] for n in range(20_001)}}),
]


@pytest.mark.parametrize("said", SAID, ids=range(len(SAID)))
def test_a_layer_that_no_draft_could_have_made_is_none(said: str) -> None:
    with pytest.raises(ValidationError):
        Layer.model_validate_json(said)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workshop, which nothing may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text("not yours")
    return folder


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    folder = tmp_path / "workshop"
    for name in ("data/a.txt", "data/in/b.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def _layer(workshop: Path, *work: Callable[[PlayedDraft], None]) -> Layer:
    with base_files(workshop) as base:
        draft = PlayedDraft(NO_LAYER, base, EDITOR)
        for one in work:
            one(draft)
        return draft.layer()


def _commit(workshop: Path, layer: Layer, disk: UnsyncedDisk | None = None) -> CommitOutcome:
    blobs = MemoryBlobs()
    blobs.put_bytes(b"new")
    commit = LayerCommit(workshop, LayerContents(blobs), SHARED, disk or UnsyncedDisk())
    return commit.commit(layer, key="r1", reviewed=layer.digest())


def _writing(path: str) -> Callable[[PlayedDraft], None]:
    return lambda draft: draft.write(path, text_file("new"))


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../.llm-do/blobs", "../../../../etc"])
def test_a_link_that_leads_out_is_no_ordinary_change(workshop: Path, target: str) -> None:
    layer = _layer(workshop, lambda draft: draft.link("data/l", target))
    with pytest.raises(SandboxRefusal, match="'data/l' belongs to the section 'links_out'"):
        _commit(workshop, layer)


@pytest.mark.parametrize("path", ["data/x.txt", "data/in/x.txt", "data/in/b.txt", "data/new/x.txt"])
@pytest.mark.parametrize("swapped", ["data", "data/in"])
def test_nothing_is_written_through_a_folder_that_became_a_link_before_the_commit(
    workshop: Path, outside: Path, path: str, swapped: str
) -> None:
    layer = _layer(workshop, _writing(path))
    (workshop / swapped).rename(workshop / "moved")
    (workshop / swapped).symlink_to(outside)
    before = seen(outside)
    outcome = _commit(workshop, layer)
    assert seen(outside) == before
    assert outcome.committed is not path.startswith(swapped)


class _Swapping(UnsyncedDisk):
    """Disk on which a folder turns into a link before the change of this number."""

    def __init__(self, number: int, folder: Path, target: Path) -> None:
        self.number = number
        self.folder = folder
        self.target = target

    def _count(self) -> None:
        self.number -= 1
        if self.number == 0:
            self.folder.rename(self.folder.parent / "moved")
            self.folder.symlink_to(self.target)

    def create(self, folder: int, name: str) -> int:
        self._count()
        return super().create(folder, name)

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        self._count()
        super().rename(folder, name, new_folder, new_name)

    def make_folder(self, folder: int, name: str, mode: int) -> None:
        self._count()
        super().make_folder(folder, name, mode)

    def remove(self, folder: int, name: str) -> None:
        self._count()
        super().remove(folder, name)


@pytest.mark.parametrize("number", range(1, 15))
def test_nothing_is_written_through_a_folder_that_becomes_a_link_during_the_commit(
    workshop: Path, outside: Path, number: int
) -> None:
    layer = _layer(workshop, _writing("data/a.txt"), _writing("data/x/y"), lambda draft: draft.delete("data/in"))
    before = seen(outside)
    disk = _Swapping(number, workshop / "data", outside)
    told = True
    with suppress(EffectFailed, SandboxRefusal, OSError):
        told = bool(_commit(workshop, layer, disk).conflicts)
    assert (workshop / "data").is_symlink()
    assert seen(outside) == before
    # What nobody was told of is as it was reviewed, wherever the folder is now.
    assert told or set(seen(workshop / "moved")) == {"a.txt", "x", "x/y"}


FORGED: dict[str, LayerEntry] = {
    "a file is said to be new": LayerEntry(now=text_file("new"), base=None, author=EDITOR),
    "a file is said to be another": LayerEntry(now=text_file("new"), base=text_file("other"), author=EDITOR),
    "a file is said to be a link": LayerEntry(now=text_file("new"), base=link_node("b"), author=EDITOR),
    "permissions are said to be others": LayerEntry(now=None, base=text_file("data/a.txt", 0o600), author=EDITOR),
    "a file is said to be a folder": LayerEntry(
        now=None, base=LayerNode(kind=NodeKind.FOLDER, mode=0o644), author=EDITOR
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_layer_that_says_something_else_of_the_base_is_a_conflict(workshop: Path, name: str) -> None:
    before = seen(workshop)
    outcome = _commit(workshop, layer_of({"data/a.txt": FORGED[name]}))
    assert not outcome.committed
    assert [one.path for one in outcome.conflicts] == ["data/a.txt"]
    assert seen(workshop) == before


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/post-checkout", "data/repository/.git/config", "data/.GIT/x", "data/.husky/pre-commit"),
        *(".github/workflows/ci.yml", "data/.gitlab-ci.yml", "data/JENKINSFILE", ".ci/run", "data/.envrc"),
        *(
            "data/.devcontainer.json",
            "data/.woodpecker.yaml",
            ".lefthook.yml",
            "data/.claude/settings.json",
            ".mcp.json",
        ),
        *("workshop.yaml", "WORKSHOP.YAML", "workers/x.worker", "data/x.worker", "tools.py", "templates/t.yaml"),
    ],
)
def test_what_gives_power_is_not_committed_with_ordinary_files(workshop: Path, path: str) -> None:
    layer = _layer(workshop, _writing("data/a.txt"), _writing(path))
    before = seen(workshop)
    with pytest.raises(SandboxRefusal, match="belongs to the section"):
        _commit(workshop, layer)
    assert seen(workshop) == before


@pytest.mark.control
def test_an_ordinary_layer_is_committed(workshop: Path) -> None:
    assert _commit(workshop, _layer(workshop, _writing("data/a.txt"))).committed
