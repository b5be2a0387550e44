"""Virtual file tree of an invocation: the meaning of its paths, and the access that it allows.

A tree is a set of mounts. The workshop's sandbox root is mounted at `/`; a worker's `restrict` keeps only a subtree and
keeps its name; named `paths` are mounted at `/name`. A worker starts from its caller's tree and may only narrow it.

Paths are judged here by their text alone. The real target of a path (symlinks, races) is the business of the activity
that opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from llm_do_temporal.errors import AttachmentRefusal, SandboxEscalation, SandboxRefusal
from llm_do_temporal.policy.values import Value


def _check_suffixes(suffixes: tuple[str, ...]) -> tuple[str, ...]:
    for suffix in suffixes:
        if not suffix.startswith(".") or "/" in suffix:
            raise ValueError(f"a suffix starts with a dot, like '.pdf'; got '{suffix}'")
    return tuple(dict.fromkeys(suffix.lower() for suffix in suffixes))


Suffixes = Annotated[tuple[str, ...], AfterValidator(_check_suffixes)]
"""File name endings such as `.pdf`, compared without regard to case."""


class FileRules(Value):
    """Rules that any level of sandbox configuration can have; a worker can only tighten them."""

    suffixes: Suffixes | None = None
    """Endings of names that are allowed; None allows all."""
    max_file_bytes: int | None = Field(default=None, ge=0)
    """Largest file, in bytes, that may be read, written or attached; None: no limit."""
    read_approval: bool | None = None
    """Whether reading, or sharing as an attachment, asks a person. None leaves it to the capability rules."""
    write_approval: bool | None = None
    """Whether writing asks a person. None leaves it to the capability rules."""


class WorkshopSandbox(FileRules):
    """`sandbox:` of `workshop.yaml`."""

    root: str
    """Folder, relative to the workshop, that becomes `/`."""
    readonly: bool = False


class NamedPath(FileRules):
    """Entry of a worker's `sandbox: paths:`, mounted at `/<name>`."""

    root: str
    """Folder, relative to the workshop."""
    mode: Literal["ro", "rw"] = "ro"
    """`ro`: files are only read; `rw`: they are written, too."""


class WorkerSandbox(FileRules):
    """`sandbox:` of a worker file."""

    restrict: str | None = None
    """Subtree that alone is kept; starts with `/`."""
    readonly: bool | None = None
    paths: dict[str, NamedPath] | None = None
    """Named folders: the older form."""


class Mount(FileRules):
    """Real folder (`root`, relative to the workshop) seen at the virtual path `at`."""

    at: str
    root: str
    base: str = "."
    """Folder, at or above `root`, that the author named. Symbolic links on the way to it are the author's; below it a
    narrower tree begins at `root` itself, or a link put there would make it another tree."""
    readonly: bool = False


class Tree(Value):
    """All files that one invocation can name."""

    mounts: tuple[Mount, ...] = ()
    settled: bool = False
    """Whether a worker has chosen its folders by `paths`: no worker below it may name folders of its own, not even
    where the choice was no folder at all."""


class Place(Value):
    """Position of a virtual path: the mount, the path below it, and the whole virtual path."""

    mount: Mount
    relative: str
    """Path below the mount's root; `.` for the mount itself."""
    path: str
    """The normalised virtual path, starting with `/`."""


NO_FILES = Tree()
TEMPORARY_NAME = re.compile(r"\.llm-do-[0-9a-f]{16}(?:[0-9a-f]{16})?\.tmp")
"""Names of files while they are written. Only a process that was killed leaves such a file behind."""
_LONGEST_NAME = 255
STATE_FOLDER = ".llm-do"
"""The product's own folder in a workshop: database, logs, blobs. No worker can reach it, wherever it lies."""
_WRITE_ASKS_BY_DEFAULT = True
_READ_ASKS_BY_DEFAULT = False


def root_tree(sandbox: WorkshopSandbox | None) -> Tree:
    """Return the tree a run starts from: the workshop's sandbox at `/`, or no files at all."""
    if sandbox is None:
        return NO_FILES
    rules = sandbox.model_dump(exclude={"root", "readonly"})
    root = _workshop_folder(sandbox.root)
    return Tree(mounts=(Mount(at="/", root=root, base=root, readonly=sandbox.readonly, **rules),))


def narrow(tree: Tree, asked: WorkerSandbox | None, *, workshop_has_sandbox: bool) -> Tree:
    """Return the tree of a worker that `asked` for these files, where its caller has `tree`.

    In a workshop without `sandbox:` the named paths of a worker whose caller has no files stand by themselves (the
    older form); everywhere else they must lie inside the caller's tree. Raises SandboxEscalation.
    """
    if asked is None:
        return tree
    if asked.paths is not None:
        alone = not workshop_has_sandbox and not tree.mounts and not tree.settled
        mounts = [
            _named_mount(name, path) if alone else _named_within(tree, name, path) for name, path in asked.paths.items()
        ]
        tree = Tree(mounts=tuple(mounts), settled=True)
    if asked.restrict is not None:
        tree = _restricted(tree, asked.restrict)
    tightened = tuple(_tightened(mount, asked, asked.readonly) for mount in tree.mounts)
    return tree.model_copy(update={"mounts": tightened})


def locate(tree: Tree, path: str) -> Place:
    """Find `path` in the tree. Relative paths start at `/`; `name:rest` is the same as `/name/rest`.

    Raises SandboxRefusal for `..`, for a path outside the tree and for a path that no file can have.
    """
    virtual = normalise(path, names=_names(tree))
    for mount in sorted(tree.mounts, key=lambda m: len(m.at), reverse=True):
        relative = _below(virtual, mount.at)
        if relative is not None:
            return Place(mount=mount, relative=relative, path=virtual)
    if not tree.mounts:
        raise SandboxRefusal(
            f"'{path}' cannot be reached: this worker has no file access",
            next_step="Add `sandbox: {root: .}` to workshop.yaml to give its workers files.",
        )
    raise SandboxRefusal(f"'{path}' is outside this worker's files; it can reach {describe_roots(tree)}")


def locate_in_workshop(tree: Tree, path: str) -> Place | None:
    """Return the place in the tree of the file `path` (relative to the workshop); None where it is not seen."""
    for mount in sorted(tree.mounts, key=lambda m: len(PurePosixPath(m.root).parts), reverse=True):
        relative = _below(path, mount.root)
        if relative is None:
            continue
        place = Place(mount=mount, relative=relative, path=normalise(join(mount.at, relative)))
        # A mount further in covers what lies there.
        if locate(tree, place.path) == place:
            return place
    return None


def path_in_tree(tree: Tree, path: str) -> str:
    """Return the path by which the tree shows the file `path` (relative to the workshop); that path where it does
    not."""
    place = locate_in_workshop(tree, path)
    return path if place is None else place.path


def locate_all(tree: Tree, path: str) -> tuple[str, tuple[Place, ...]]:
    """Return the normalised path of the folder `path`, and the places whose files a listing of it shows.

    The places are the folder itself, where a mount holds it, and every mount below it. Raises SandboxRefusal.
    """
    virtual = normalise(path, names=_names(tree))
    below = [
        Place(mount=mount, relative=".", path=mount.at)
        for mount in tree.mounts
        if mount.at != virtual and _below(mount.at, virtual) is not None
    ]
    if below and not any(_below(virtual, mount.at) is not None for mount in tree.mounts):
        return virtual, tuple(below)
    return virtual, (locate(tree, path), *below)


def check_readable(place: Place) -> None:
    """Raise SandboxRefusal unless a file with this name may be read here."""
    _check_private(place)
    _check_suffix(place)


def check_writable(place: Place, tree: Tree | None = None) -> None:
    """Raise SandboxRefusal unless a file with this name may be written here; the message names the writable mounts."""
    _check_private(place)
    if place.mount.readonly:
        raise SandboxRefusal(f"'{place.path}' is read-only; {_instead(tree)}")
    if place.relative == ".":
        raise SandboxRefusal(f"'{place.path}' is a folder; a file name is needed")
    _check_suffix(place)


def _instead(tree: Tree | None) -> str:
    """Return the writable mounts of a tree in words."""
    if tree is None:
        return "it cannot be written"
    writable = [mount.at for mount in tree.mounts if not mount.readonly]
    return f"writable: {', '.join(writable)}" if writable else "nothing here can be written"


def check_size(place: Place, size: int) -> None:
    """Raise SandboxRefusal when `size` bytes are more than a file may have here."""
    limit = place.mount.max_file_bytes
    if limit is not None and size > limit:
        raise SandboxRefusal(f"'{place.path}' has {size} bytes; the limit here is {limit} (max_file_bytes)")


def describe_roots(tree: Tree) -> str:
    """Return the tree's mounts in words, for messages to a model."""
    return ", ".join(f"{mount.at} ({'read-only' if mount.readonly else 'read-write'})" for mount in tree.mounts)


def normalise(path: str, *, names: frozenset[str] = frozenset()) -> str:
    """Return an absolute virtual path without `.` or doubled slashes. Raises SandboxRefusal for `..` and NUL."""
    if "\0" in path:
        raise SandboxRefusal("a path cannot contain a NUL character")
    if any("\ud800" <= char <= "\udfff" for char in path):
        raise SandboxRefusal("a path cannot contain half a character (a lone surrogate)")
    head, colon, rest = path.partition(":")
    if colon and head in names and head:
        path = f"{head}/{rest}"
    parts = PurePosixPath(path).parts
    if ".." in parts:
        raise SandboxRefusal(f"'{path}' contains '..'; name the path from the top of the tree instead")
    kept = [part for part in parts if part.strip("/")]
    return "/" + "/".join(kept)


def _names(tree: Tree) -> frozenset[str]:
    return frozenset(mount.at.strip("/") for mount in tree.mounts)


def join(folder: str, relative: str) -> str:
    """Return `relative` below the workshop-relative `folder`, as text; `.` adds nothing."""
    return str(PurePosixPath(folder) / relative)


def _workshop_folder(root: str) -> str:
    """Return a configured root as a workshop-relative path. Raises SandboxRefusal where it leaves the workshop."""
    path = PurePosixPath(root)
    if path.is_absolute() or ".." in path.parts or "\0" in root:
        raise SandboxRefusal(f"sandbox root '{root}' leaves the workshop; it is a folder relative to workshop.yaml")
    if any(len(part.encode(errors="replace")) > _LONGEST_NAME for part in path.parts):
        raise SandboxRefusal(f"sandbox root '{root[:80]}…' has a name of more than {_LONGEST_NAME} bytes")
    return str(path)


def _named_mount(name: str, path: NamedPath) -> Mount:
    if normalise(f"/{name}") != f"/{name}" or not name or set(name) & {"/", ":"}:
        raise SandboxRefusal(f"sandbox path '{name}' is not a name; it becomes a folder, so it has no '/' and no ':'")
    rules = path.model_dump(exclude={"root", "mode"})
    root = _workshop_folder(path.root)
    return Mount(at=f"/{name}", root=root, base=root, readonly=path.mode == "ro", **rules)


def _named_within(tree: Tree, name: str, path: NamedPath) -> Mount:
    asked = _named_mount(name, path)
    for mount in sorted(tree.mounts, key=lambda m: len(PurePosixPath(m.root).parts), reverse=True):
        if _below(join("/", asked.root), join("/", mount.root)) is None:
            continue
        if mount.readonly and path.mode == "rw":
            raise SandboxEscalation(
                f"sandbox path '{name}' asks for mode rw where its caller can only read ('{mount.at}')"
            )
        narrowed = mount.model_copy(update={"at": asked.at, "root": asked.root})
        return _tightened(narrowed, path, True if path.mode == "ro" else None)
    raise SandboxEscalation(f"sandbox path '{name}' ('{path.root}') lies outside its caller's files")


def _restricted(tree: Tree, restrict: str) -> Tree:
    if not restrict.startswith("/"):
        raise SandboxRefusal(f"sandbox restrict '{restrict}' must start with '/'")
    subtree = normalise(restrict)
    kept: dict[str, Mount] = {}
    # From the outermost in: what a mount further in covers, the caller could not see either.
    for mount in sorted(tree.mounts, key=lambda m: len(m.at)):
        inner = _below(subtree, mount.at)
        if inner is not None:
            kept[subtree] = mount.model_copy(update={"at": subtree, "root": join(mount.root, inner)})
        elif _below(mount.at, subtree) is not None:
            kept[mount.at] = mount
    if not tree.mounts:
        raise SandboxEscalation(f"sandbox restrict '{restrict}' asks for files where the caller has none")
    if not kept:
        raise SandboxEscalation(f"sandbox restrict '{restrict}' lies outside the caller's files")
    return tree.model_copy(update={"mounts": tuple(kept.values())})


def _tightened(mount: Mount, asked: FileRules, readonly: bool | None) -> Mount:
    if mount.readonly and readonly is False:
        raise SandboxEscalation(f"'{mount.at}' is read-only for the caller; a worker cannot make it writable")
    return mount.model_copy(
        update={
            "readonly": mount.readonly or bool(readonly),
            "suffixes": _both(mount.suffixes, asked.suffixes),
            "max_file_bytes": min(
                (n for n in (mount.max_file_bytes, asked.max_file_bytes) if n is not None), default=None
            ),
            "read_approval": _stricter(
                mount, "read_approval", mount.read_approval, asked.read_approval, _READ_ASKS_BY_DEFAULT
            ),
            "write_approval": _stricter(
                mount, "write_approval", mount.write_approval, asked.write_approval, _WRITE_ASKS_BY_DEFAULT
            ),
        }
    )


def _stricter(mount: Mount, name: str, has: bool | None, asked: bool | None, default: bool) -> bool | None:
    if asked is False and (default if has is None else has):
        raise SandboxEscalation(
            f"'{mount.at}' has {name}: true; a worker cannot switch it off (set {name}: false in workshop.yaml)"
        )
    # A worker's `false` adds nothing: put in place of None, it would overrule the workshop's capability rules.
    return True if asked else has


def _both(has: tuple[str, ...] | None, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if has is None or asked is None:
        return asked if has is None else has
    # A name that ends in both ends in the longer one: '.gz' and '.tar.gz' leave '.tar.gz'.
    pairs = (sorted((one, other), key=len) for one in has for other in asked)
    return tuple(dict.fromkeys(longer for shorter, longer in pairs if longer.endswith(shorter)))


def _below(path: str, folder: str) -> str | None:
    """Return `path` relative to `folder` (`.` when they are the same), or None when it is not below it."""
    inner, outer = PurePosixPath(path), PurePosixPath(folder)
    return str(inner.relative_to(outer)) if inner.is_relative_to(outer) else None


def _check_private(place: Place) -> None:
    check_not_state(place, join(place.mount.root, place.relative))


def check_not_state(place: Place, real: str) -> None:
    """Raise SandboxRefusal where `real`, the file's path in the workshop, lies in the product's own state."""
    # Some file systems do not tell capitals from small letters.
    if STATE_FOLDER in (part.casefold() for part in PurePosixPath(real).parts):
        raise SandboxRefusal(
            f"'{place.path}' lies in '{STATE_FOLDER}', where llm-do-temporal keeps its own state; "
            "no worker can read or write there",
            next_step="Choose another folder.",
        )


def _check_suffix(place: Place) -> None:
    allowed = place.mount.suffixes
    if allowed is not None and not has_suffix(place.path, allowed):
        raise SandboxRefusal(f"'{place.path}' has a suffix that is not allowed here; allowed: {_listed(allowed)}")


def has_suffix(path: str, suffixes: Iterable[str]) -> bool:
    """Return whether the file name ends in one of the suffixes, without regard to case."""
    return PurePosixPath(path).name.lower().endswith(tuple(suffixes))


def _listed(suffixes: tuple[str, ...]) -> str:
    return ", ".join(suffixes) if suffixes else "none"


WORKSHOP = Mount(at="/", root=".", readonly=True)
"""The workshop's folder as a whole."""
WORKSHOP_TREE = Tree(mounts=(WORKSHOP,))
_SHOWN_CHARS = 200


def input_place(path: str) -> Place:
    """Return the place of a file, named by its path below the workshop. Raises AttachmentRefusal."""
    check_input_path(path)
    relative = str(PurePosixPath(path))
    return Place(mount=WORKSHOP, relative=relative, path=relative)


def check_input_path(path: str) -> None:
    """Raise AttachmentRefusal unless a path, or a pattern, stays in the workshop and names nothing hidden."""
    shown = path[:_SHOWN_CHARS]
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise AttachmentRefusal(
            f"'{shown}' leads out of the workshop's folder; a run that begins by itself reads files of that alone",
            next_step="Put the file into the workshop, or have its bytes kept now: --pin.",
        )
    if not parts or "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise AttachmentRefusal(f"'{shown!r}' is no path of a file")
    if STATE_FOLDER in (part.casefold() for part in parts):
        raise AttachmentRefusal(f"'{shown}' lies in '{STATE_FOLDER}', where the product keeps its own state")
    if is_hidden_path(path):
        raise AttachmentRefusal(
            f"'{shown}' is hidden: a run that begins by itself reads no file whose path has a part that begins with '.'"
        )


def is_hidden_path(path: str) -> bool:
    """Return whether any part of a path begins with a dot."""
    return any(part.startswith(".") for part in PurePosixPath(path).parts)
