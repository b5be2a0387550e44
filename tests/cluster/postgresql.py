"""PostgreSQL of the cluster: that on the PATH or Debian's, in a folder of its own, as an account that is not root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process, last_line

USER = "temporal"
"""Of the database, as docker-compose.yml has it."""
_INSTALLED = Path("/usr/lib/postgresql")
_ACCOUNTS = ("postgres", "nobody")
"""For it to run as, where this process is root's; PostgreSQL refuses root."""


def find_programs() -> Path:
    """The folder with `initdb` and `postgres`. Raises ClusterError."""
    if (found := shutil.which("initdb")) is not None and _is_whole(Path(found).resolve().parent):
        return Path(found).resolve().parent
    versions = [path for path in _INSTALLED.glob("*/bin") if _is_whole(path)]
    if not versions:
        raise ClusterError(
            "there is no PostgreSQL (no `initdb` on the PATH or below /usr/lib/postgresql): "
            "install it, on Debian with `apt-get install postgresql`"
        )
    return max(versions, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)])


def _is_whole(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("initdb", "postgres", "pg_isready"))


def account() -> str | None:
    """The account it runs as; None: that of this process. Raises ClusterError."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ClusterError("PostgreSQL refuses to run as root, and there is no account `postgres`: make one with useradd")


def make_database(folder: Path, password: str, log: Path) -> None:
    """Make the files of a server in `folder`, unless they are there. Raises ClusterError."""
    if (folder / "PG_VERSION").exists():
        _check_version(folder)
        return
    user = account()
    folder.mkdir(mode=0o700)
    if user is not None:
        shutil.chown(folder, user, user)
    said = folder.with_name("postgresql.password")
    said.touch(mode=0o600)
    if user is not None:
        shutil.chown(said, user, user)
    said.write_text(password)
    command = [find_programs() / "initdb", "--pgdata", folder, "--username", USER, "--pwfile", said]
    command += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8"]
    with log.open("ab") as file:
        done = subprocess.run(
            command,
            stdout=file,
            stderr=file,
            env=_variables(),
            cwd="/",
            check=False,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
    said.unlink()
    if done.returncode != 0:
        shutil.rmtree(folder)
        raise ClusterError(f"initdb failed: {last_line(log)}; its log: {log}")


def server(folder: Path, port: int, log: Path, told: Sequence[str]) -> Process:
    """The server of these files with these arguments. It ends at once when stopped, and breaks connections off."""
    programs = find_programs()
    options = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", *told]
    ready = [programs / "pg_isready", "--host", "127.0.0.1", "--port", str(port), "--username", USER, "--quiet"]

    def is_well() -> bool:
        return subprocess.run([*ready, "--dbname", "postgres"], env=_variables(), check=False).returncode == 0

    return Process(
        name="postgresql",
        command=[str(programs / "postgres"), "-D", str(folder), *options],
        variables=_variables(),
        log=log,
        ports={"sql": port},
        is_well=is_well,
        user=account(),
        stop_signal=signal.SIGINT,
    )


def _check_version(folder: Path) -> None:
    kept = (folder / "PG_VERSION").read_text().strip()
    said = subprocess.run([find_programs() / "postgres", "--version"], capture_output=True, text=True, check=True)
    if (found := re.search(r"(\d+)", said.stdout)) and found[1] != kept:
        raise ClusterError(
            f"{folder} was made by PostgreSQL {kept}, this one is {found[1]}: "
            "remove the cluster's folder, or name another"
        )


def _variables() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
