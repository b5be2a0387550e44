"""Programs that no package brings, built from their Go modules: the Temporal server, the object store, Kubernetes.

Kept outside of the checkout, by version, so that a new version is built anew and an old one stays:

    ~/.cache/llm-do-temporal/cluster/temporal-1.32.0/{temporal-server,temporal-sql-tool,schema/…}
    ~/.cache/llm-do-temporal/cluster/versitygw-1.8.0/versitygw
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from llm_do_temporal.client.embedded.server import user_cache
from tests.cluster.errors import ClusterError

_SCHEMA = Path("schema/postgresql/v12")
_UNFINISHED = ".building-"
"""Begins the name of a folder that is no more where a build has ended, unless it was killed."""


@dataclass(frozen=True)
class Module:
    """A Go module, the commands of it that are wanted, and folders and files that they need beside them."""

    name: str
    path: str
    version: str
    commands: tuple[tuple[str, str], ...]
    """Pairs: the package below the module's path (`.`: the module itself), and the name of the program."""
    folders: tuple[Path, ...] = ()
    staged: str | None = None
    """Version of the modules that it has in folders of its own and requires as v0.0.0; None: it has no such folders."""
    linked: tuple[str, ...] = ()
    """What the linker writes into the programs, each as VARIABLE=VALUE."""

    @property
    def home(self) -> Path:
        return programs_folder() / f"{self.name}-{self.version}"

    def is_built(self) -> bool:
        """Whether everything is there."""
        names = [name for _, name in self.commands] + [str(one) for one in self.folders]
        return all((self.home / name).exists() for name in names)


def programs_folder() -> Path:
    return user_cache() / "cluster"


def wanted_modules(temporal: str, versitygw: str) -> tuple[Module, Module]:
    """The modules in these versions, as tags of images name them: with a `v` before them or without."""
    commands = (("cmd/server", "temporal-server"), ("cmd/tools/sql", "temporal-sql-tool"))
    return (
        Module("temporal", "go.temporal.io/server", temporal.removeprefix("v"), commands, (_SCHEMA,)),
        Module(
            "versitygw",
            "github.com/versity/versitygw",
            versitygw.removeprefix("v"),
            (("cmd/versitygw", "versitygw"),),
        ),
    )


def build(module: Module, tell: Callable[[str], None]) -> None:
    """Build what is missing of a module. Raises ClusterError."""
    if module.is_built():
        return
    with _alone():
        if module.is_built():
            return
        if shutil.which("go") is None:
            raise ClusterError(
                f"{module.name} {module.version} is not in {module.home}, and there is no `go` to build it with: "
                "install Go 1.26 or newer (https://go.dev/dl), or copy that folder from a machine that has it"
            )
        if module.commands:
            tell(f"building {module.name} {module.version} with go, into {module.home}; it takes up to 20 min, once …")
        for left in programs_folder().glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=programs_folder(), prefix=_UNFINISHED) as made:
            _install(module, Path(made))
            # A folder is there whole or not at all.
            shutil.rmtree(module.home, ignore_errors=True)
            (Path(made) / "done").rename(module.home)


def _install(module: Module, made: Path) -> None:
    (done := made / "done").mkdir()
    if module.staged is not None:
        _build_staged(module, module.staged, made)
    for package, name in module.commands if module.staged is None else ():
        target = made / name
        _go("install", f"{module.path}/{package}@v{module.version}", GOBIN=str(target), CGO_ENABLED="0")
        (built,) = target.iterdir()
        built.rename(done / name)
    if module.folders:
        source = _download(module)
        for folder in module.folders:
            _copy_readable(source / folder, done / folder)


def _download(module: Module) -> Path:
    told = _go("mod", "download", "-json", f"{module.path}@v{module.version}")
    return Path(json.loads(told)["Dir"])


def _build_staged(module: Module, staged: str, made: Path) -> None:
    """Build it within a module of ours: `go install` takes none that has modules in folders of its own."""
    source = _download(module)
    said: dict[str, Any] = json.loads(_go("mod", "edit", "-json", str(source / "go.mod")))
    unversioned = [one["Path"] for one in said["Require"] if one["Version"] == "v0.0.0"]
    lines = ["module llm-do-temporal.invalid/programs", f"go {said['Go']}"]
    lines += [f"require {module.path} v{module.version}", *(f"replace {one} => {one} v{staged}" for one in unversioned)]
    (ours := made / "module").mkdir()
    (ours / "go.mod").write_text("\n".join(lines) + "\n")
    # What the authors saw; Go adds the sums of the modules that they have in folders.
    shutil.copyfile(source / "go.sum", ours / "go.sum")
    flags = " ".join(["-s -w", *(f"-X {one}" for one in module.linked)])
    for package, name in module.commands:
        command = ["build", "-mod=mod", "-o", str(made / "done" / name), f"-ldflags={flags}"]
        _go(*command, str(PurePosixPath(module.path, package)), folder=ours, CGO_ENABLED="0", GOWORK="off")


def _copy_readable(source: Path, target: Path) -> None:
    """Copy a folder or a file of the module cache, where nothing may be written or removed, as ordinary files."""
    for path in [source] if source.is_file() else sorted(one for one in source.rglob("*") if one.is_file()):
        (to := target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


def _go(*arguments: str, folder: Path = Path("/"), **variables: str) -> str:
    done = subprocess.run(
        ["go", *arguments], env={**os.environ, **variables}, capture_output=True, text=True, cwd=folder, check=False
    )
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ClusterError(
            f"`go {' '.join(arguments)}` failed: {last}\n"
            "It needs Go 1.26 or newer and a module proxy (`go env GOPROXY`); what is built already is kept."
        )
    return done.stdout


@contextmanager
def _alone() -> Generator[None]:
    """Wait until nobody else builds."""
    programs_folder().mkdir(parents=True, exist_ok=True)
    with (programs_folder() / "build.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
