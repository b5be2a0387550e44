"""Random programs that change files: each can be carried out in a real folder, and in a layer over one.

What they do is known twice, once by system calls and once by the layer; neither asks the other.
"""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, NodeKind
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents
from tests.support.workshops.layered import EDITOR, PlayedDraft, ran_over

NAMES = ("a", "b", "c.txt", "dé")
FILE_MODES = (0o644, 0o600, 0o755)
FOLDER_MODES = (0o755, 0o700, 0o775)
LOOK = 'seen=$(find . | LC_ALL=C sort); echo "$seen" >> seen.txt'
"""Line of a script that writes down all that a command sees."""
OPERATIONS = ("write", "edit", "delete", "rename", "link", "folder", "permit")


@dataclass(frozen=True)
class Operation:
    """One step of a program."""

    name: str
    path: str
    other: str = ""
    """New path, text of a link, bytes of a file, or a script."""
    mode: int = 0


def random_path(dice: random.Random) -> str:
    return "/".join(dice.choice(NAMES) for _ in range(dice.choice((1, 1, 2, 2, 3))))


def random_tree(dice: random.Random, folder: Path) -> None:
    """Fill an empty folder."""
    for _ in range(dice.randrange(12)):
        path = folder / random_path(dice)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kind = dice.randrange(5)
            if kind == 0:
                path.symlink_to(random_target(dice, str(path.relative_to(folder))))
            elif kind == 1:
                path.mkdir()
                path.chmod(dice.choice(FOLDER_MODES))
            elif not path.is_symlink():
                path.write_bytes(random_bytes(dice).encode())
                path.chmod(dice.choice(FILE_MODES))
        except OSError:
            continue


def random_target(dice: random.Random, path: str) -> str:
    """Return the text of a link at the path that does not lead out of the top."""
    return "../" * dice.randrange(path.count("/") + 1) + dice.choice(NAMES)


def random_bytes(dice: random.Random) -> str:
    return "".join(f"line {dice.randrange(5)}\n" for _ in range(dice.randrange(4)))


def random_program(dice: random.Random, *, commands: bool) -> list[Operation]:
    names = [*OPERATIONS, *(("command",) * 3 if commands else ())]
    return [_operation(dice, dice.choice(names)) for _ in range(dice.randrange(1, 9))]


def _operation(dice: random.Random, name: str) -> Operation:
    path = random_path(dice)
    if name == "rename":
        return Operation(name, path, random_path(dice))
    if name == "link":
        return Operation(name, path, random_target(dice, path))
    if name == "command":
        lines = [_line(dice) for _ in range(dice.randrange(1, 5))]
        return Operation(name, "", "\n".join((LOOK, *lines, LOOK)))
    return Operation(name, path, random_bytes(dice), dice.randrange(3))


def _line(dice: random.Random) -> str:
    path, other = random_path(dice), random_path(dice)
    target = random_target(dice, path)
    one, two, text = map(shlex.quote, (path, other, target))
    return dice.choice(
        (
            f"echo {dice.randrange(9)} > {one}",
            f"echo {dice.randrange(9)} >> {one}",
            f"rm -rf {one}",
            f"mv -T {one} {two}",
            f"ln -s {text} {one}",
            f"mkdir -p {one}",
            f"test -f {one} && cp {one} {two}",
            f"test -f {one} && chmod {dice.choice(FILE_MODES):o} {one}",
            f"rm -rf {one}; mkdir {one} && echo new > {one}/a",
            f"test -d {one} && rm -rf {one} && echo file > {one}",
            f"mv {one} moved && mkdir -p {one}; mv moved {one}/b",
            f"test -d {one} && chmod {dice.choice(FOLDER_MODES):o} {one} && touch {one}/c.txt",
        )
    )


def in_folder(operation: Operation, top: Path) -> bool:
    """Carry out an operation in a real folder; return whether it could be."""
    if operation.name == "command":
        subprocess.run(["sh", "-c", operation.other], cwd=top, capture_output=True, check=False, timeout=60)
        return True
    path = top / operation.path
    try:
        if any(one.is_symlink() for one in path.parents if one != top and one.is_relative_to(top)):
            return False
        _REAL[operation.name](operation, path, top)
    except (OSError, shutil.Error):
        return False
    return True


def _write(operation: Operation, path: Path, _top: Path) -> None:
    if path.is_symlink() or path.is_dir():
        raise IsADirectoryError
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(operation.other.encode())


def _edit(operation: Operation, path: Path, top: Path) -> None:
    if path.is_symlink() or not path.is_file():
        raise FileNotFoundError
    path.write_bytes(path.read_bytes() + operation.other.encode())


def _delete(_operation: Operation, path: Path, _top: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _rename(operation: Operation, path: Path, top: Path) -> None:
    new = top / operation.other
    if any(one.is_symlink() for one in new.parents if one != top and one.is_relative_to(top)):
        raise OSError
    path.rename(new)


def _link(operation: Operation, path: Path, _top: Path) -> None:
    path.symlink_to(operation.other)


def _folder(_operation: Operation, path: Path, _top: Path) -> None:
    if path.is_symlink():
        raise FileExistsError
    path.mkdir(parents=True, exist_ok=True)


def _permit(operation: Operation, path: Path, _top: Path) -> None:
    if path.is_symlink():
        raise FileNotFoundError
    path.chmod((FOLDER_MODES if path.is_dir() else FILE_MODES)[operation.mode])


_REAL: dict[str, Callable[[Operation, Path, Path], None]] = {
    "write": _write,
    "edit": _edit,
    "delete": _delete,
    "rename": _rename,
    "link": _link,
    "folder": _folder,
    "permit": _permit,
}


@dataclass
class LayerPlay:
    """Layer over a base, and the operations that it has gone through."""

    base: BaseFiles
    contents: LayerContents
    scratch: Path
    layer: Layer = NO_LAYER

    def carry_out(self, operation: Operation) -> bool:
        """Carry out an operation in the layer; return whether it could be."""
        if operation.name == "command":
            self.layer = ran_over(self.layer, self.base, self.contents, operation.other, self.scratch)
            return True
        draft = PlayedDraft(self.layer, self.base, EDITOR)
        try:
            self._in_draft(operation, draft)
        except LlmDoError:
            return False
        self.layer = draft.layer()
        return True

    def _in_draft(self, operation: Operation, draft: PlayedDraft) -> None:
        path, other = operation.path, operation.other
        if operation.name == "write":
            draft.write(path, self.contents.keep(other.encode(), path))
        elif operation.name == "edit":
            draft.write(path, self.contents.keep(self._bytes(draft, path) + other.encode(), path))
        elif operation.name == "delete":
            draft.delete(path)
        elif operation.name == "rename":
            draft.rename(path, other)
        elif operation.name == "link":
            draft.link(path, other)
        elif operation.name == "folder":
            draft.folder(path)
        else:
            modes = FOLDER_MODES if draft.kind(path) is NodeKind.FOLDER else FILE_MODES
            draft.change_mode(path, modes[operation.mode])

    def _bytes(self, draft: PlayedDraft, path: str) -> bytes:
        if draft.kind(path) is not NodeKind.FILE:
            raise LlmDoError(f"'{path}' is no file")
        node = draft.look(path)
        if node is None or node.blob is None:
            node = self.base.kept(path)
        assert node is not None
        return self.contents.read(node, path)
