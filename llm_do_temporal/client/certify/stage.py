"""Stage on which runs are rehearsed: a server of their own, copies of the workshop, and worker services to kill."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Literal, get_args

from temporalio.client import Client

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.embedded.processes import await_server, server_command, service_command, spawn
from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME
from llm_do_temporal.storage.blobs import blob_folder
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs

KillKind = Literal["service", "server", "two", "freeze"]
"""Process that is struck: the only worker service, the server, one of two worker services, or a service that is stopped
(SIGSTOP), replaced, and woken when the run is over."""
KINDS: tuple[KillKind, ...] = get_args(KillKind)
_NOT_COPIED = (STATE_FOLDER, ".git", ".venv", "__pycache__")


class Server:
    """A Temporal server that can be killed and comes back with its database."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{any_free_port()}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        """Start it and return a client. Raises ConnectionFailed."""
        return await await_server(self._begin(), self.address, self._folder / "temporal.db", self._log)

    def strike(self) -> None:
        """SIGKILL it and start it again at once; it answers a little later."""
        self.close()
        self._begin()

    def close(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _begin(self) -> subprocess.Popen[bytes]:
        self._process = spawn(server_command(self.address, self._folder / "temporal.db", None), self._log, private=True)
        return self._process


class Lane:
    """A copy of the workshop in which one run after the other is rehearsed, with the services that serve it."""

    def __init__(self, original: Path, folder: Path, server: Server, client: Client, kind: KillKind) -> None:
        """`folder` is where the copy goes; its name is the task queue, so it is unlike all others."""
        self.workshop = folder / original.name
        big = with_big_payloads(client, workshop_blobs(self.workshop))
        self.client = LlmDoClient(big, task_queue=folder.name)
        self.kind: KillKind = kind
        self._original, self._folder, self._server = original, folder, server
        self._services: list[subprocess.Popen[bytes]] = []
        self._frozen: subprocess.Popen[bytes] | None = None
        folder.mkdir()

    def reset(self, blobs: Path | None = None) -> None:
        """Make the copy equal to the workshop again, with these blobs, and see that enough services run."""
        if self.workshop.exists():
            shutil.rmtree(self.workshop)
        shutil.copytree(
            self._original,
            self.workshop,
            symlinks=True,
            ignore=shutil.ignore_patterns(*_NOT_COPIED),
            dirs_exist_ok=True,
        )
        if blobs is not None:
            shutil.copytree(blobs, blob_folder(self.workshop), dirs_exist_ok=True)
        while len(self._services) < (2 if self.kind == "two" else 1):
            self._begin()

    def strike(self) -> int | None:
        """Kill or stop what this lane is about; returns the process id of the service that is gone."""
        if self.kind == "server":
            self._server.strike()
            return None
        struck = self._services.pop(0)
        if self.kind == "freeze":
            self._frozen = struck
            struck.send_signal(signal.SIGSTOP)
        else:
            struck.kill()
            struck.wait()
        if self.kind != "two":
            self._begin()
        return struck.pid

    async def wake(self) -> None:
        """Let a service that was stopped go on, finish what it still holds, and leave."""
        if self._frozen is not None:
            self._frozen.send_signal(signal.SIGCONT)
            self._frozen.terminate()
            await asyncio.to_thread(self._frozen.wait)
            self._frozen = None

    def files(self) -> dict[str, str]:
        """The digest of every file of the copy, by its path."""
        return digests(self.workshop)

    def close(self) -> None:
        """SIGKILL its services."""
        for service in (*self._services, *([self._frozen] if self._frozen else [])):
            service.kill()
            service.wait()
        self._services, self._frozen = [], None

    def _begin(self) -> None:
        command = service_command(self.workshop, self._server.address)
        variables = {"LLM_DO_TASK_QUEUE": self._folder.name, "LLM_DO_NOTIFY": "off"}
        self._services.append(spawn(command, self._folder / "service.log", variables))


def digests(workshop: Path) -> dict[str, str]:
    """The digest of every file a run may have changed; what a killed process left half-written is no file yet."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(workshop):
        folders[:] = [name for name in folders if name not in _NOT_COPIED]
        for name in names:
            path = Path(folder) / name
            if TEMPORARY_NAME.fullmatch(name) or not path.is_file():
                continue
            found[path.relative_to(workshop).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
