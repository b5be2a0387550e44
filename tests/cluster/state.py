"""Folder of a cluster: what it keeps from one start to the next, and what others may know of it while it runs."""

from __future__ import annotations

import base64
import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.composition import make_passwords
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process, free_ports

STATE = "cluster.json"


@dataclass(frozen=True)
class Place:
    """Files of one cluster below a folder."""

    folder: Path

    @property
    def state(self) -> Path:
        """Processes with their pids, ports and logs; see `RunningCluster`."""
        return self.folder / STATE

    @property
    def lock(self) -> Path:
        """Held by the process that runs the cluster."""
        return self.folder / "lock"

    @property
    def settings(self) -> Path:
        """Variables for docker-compose.yml, as an `.env` has them."""
        return self.folder / "env"

    @property
    def keys(self) -> Path:
        return self.folder / "secrets/encryption_keys"

    @property
    def tokens(self) -> Path:
        """Tokens of the page and the codec server."""
        return self.folder / "secrets/page_tokens"

    @property
    def client(self) -> Path:
        """Variables for our commands, so that they reach this cluster; a shell can read them."""
        return self.folder / "client.env"

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def make(self) -> None:
        """Make the folders. Raises ClusterError where another account has them."""
        # PostgreSQL is another account where this is root's, and has to get to its own folder.
        mode = 0o711 if os.geteuid() == 0 else 0o700
        self.folder.mkdir(mode=mode, parents=True, exist_ok=True)
        facts = self.folder.lstat()
        if self.folder.is_symlink() or facts.st_uid != os.geteuid():
            raise ClusterError(f"{self.folder} is a link or another account's: name another folder with --folder")
        self.folder.chmod(mode)
        for name in ("logs", "secrets", "blobs", "blobs/llm-do"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        if not self.keys.exists():
            _write(self.keys, f"first:{base64.b64encode(secrets.token_bytes(32)).decode()}\n")
        if not self.tokens.exists():
            _write(self.tokens, f"ada: {secrets.token_hex(24)}\n")

    def token(self) -> str:
        """The one with which a person signs in."""
        return self.tokens.read_text(encoding="utf-8").partition(":")[2].strip()

    def write(self, path: Path, text: str) -> None:
        """Write one of these files, for its owner alone; readers see the old text or the new one."""
        _write(path, text)


def default_folder() -> Path:
    """Where a cluster is kept if nobody says where: a disk, not memory, and no folder that is closed to PostgreSQL."""
    return Path("/var/tmp" if Path("/var/tmp").is_dir() else tempfile.gettempdir()) / f"llm-do-cluster-{os.geteuid()}"


@dataclass(frozen=True)
class Kept:
    """Passwords and ports, the same at every start: a database keeps the one, a browser and a shell the others."""

    passwords: Mapping[str, str]
    ports: Mapping[str, int]

    @classmethod
    def of(cls, place: Place, names: Sequence[str]) -> Kept:
        """Those that were written down, and new ones for what is missing; ports that somebody took are others."""
        path = place.folder / "kept.json"
        before: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        passwords = {**make_passwords(), **before.get("passwords", {})}
        kept = cls(passwords, free_ports(names, before.get("ports", {})))
        _write(path, json.dumps(asdict(kept)))
        return kept


@dataclass(frozen=True)
class RunningProcess:
    """A process as `cluster.json` has it."""

    pid: int | None
    """None: it does not run now."""
    ports: Mapping[str, int]
    log: str


@dataclass(frozen=True)
class RunningCluster:
    """All that others need to use a cluster, or to break it; the content of `cluster.json`. No secret is in it."""

    pid: int
    """The process that runs it."""
    address: str
    """Of the Temporal server."""
    namespace: str
    addresses: Mapping[str, str]
    """Of the page and the rest, by name."""
    processes: Mapping[str, RunningProcess] = field(default_factory=dict[str, RunningProcess])
    ready: bool = False
    """Whether all of it is up. Until then there may be processes that are missing here."""


def write_running(place: Place, running: RunningCluster, processes: Mapping[str, Process]) -> None:
    """Write down what runs now."""
    known = {name: asdict(RunningProcess(one.pid, one.ports, str(one.log))) for name, one in processes.items()}
    _write(place.state, json.dumps({**asdict(running), "processes": known}, indent=2) + "\n")


def read_running(place: Place) -> RunningCluster | None:
    """Read what ran when it was written; None where a cluster is only beginning, or ending already."""
    try:
        said: dict[str, Any] = json.loads(place.state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    processes = {name: RunningProcess(**one) for name, one in said.pop("processes").items()}
    return RunningCluster(**said, processes=processes)


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text, encoding="utf-8")
    new.replace(path)
