"""The compose file, brought up for a test: a project, ports, secrets and a workshop of its own, gone at the end.

Asks nothing of a registry where images of the names in the file are there already; `local_images` builds them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from llm_do_temporal.client.embedded.server import any_free_port
from tests.compose.script import ASKER, KEEPER, READER, TELLER, TOOLS, WORKSHOP

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300
"""How long anything may take before the test gives up. Nothing is slow on purpose, machines are."""
NOT_ROOT = 10001
"""Whom the containers run as where the test runs as root."""
ONCE = ("temporal-schema", "temporal-namespace")
"""The services that end."""
_FILES = (ROOT / "docker-compose.yml", ROOT / "tests/compose/provider.yml")
_PORTS = ("PAGE_PORT", "TEMPORAL_UI_PORT", "CODEC_PORT", "GRAFANA_PORT", "PROMETHEUS_PORT", "TEMPORAL_PORT")
T = TypeVar("T")


def missing_engine() -> str | None:
    """What is missing to run containers here, and what to do; None where nothing is."""
    if shutil.which("docker") is None:
        return "there is no `docker` on PATH: install Docker Engine 26.1 or newer with its Compose plugin"
    for command, what in ((("version",), "no Docker engine answers"), (("compose", "version"), "Compose is missing")):
        done = subprocess.run(["docker", *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            return f"{what} (DOCKER_HOST is {os.environ.get('DOCKER_HOST') or 'not set'}): {said}"
    return None


def eventually(found: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Ask again and again until there is an answer, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError(f"never happened: {what}")


def free_ports() -> dict[str, int]:
    """Another port for every one that the compose file publishes."""
    found: dict[str, int] = {}
    while len(found) < len(_PORTS):
        if (port := any_free_port()) not in found.values():
            found[_PORTS[len(found)]] = port
    return found


@dataclass
class Stack:
    """All services of the compose file, and one that plays the model."""

    folder: Path
    project: str = field(default_factory=lambda: f"llm-do-test-{os.getpid()}")
    ports: dict[str, int] = field(default_factory=free_ports)
    token: str = field(default_factory=lambda: secrets.token_hex(24))
    key: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(32)).decode())

    def __post_init__(self) -> None:
        owner = (os.getuid(), os.getgid()) if os.getuid() else (NOT_ROOT, NOT_ROOT)
        values = {name: secrets.token_hex(12) for name in ("POSTGRES_PASSWORD", "BLOBS_SECRET_KEY", "GRAFANA_PASSWORD")}
        values |= {"BLOBS_ACCESS_KEY": "blobs", "LLM_DO_UID": str(owner[0]), "LLM_DO_GID": str(owner[1])}
        values |= {"WORKSHOP": str(self.workshop), "SECRETS": str(self.folder / "secrets")}
        values |= {name: str(port) for name, port in self.ports.items()}
        text = (ROOT / "deploy/compose/env.example").read_text()
        for name, value in values.items():
            text, count = re.subn(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
            assert count == 1, name
        self._write("env", text)
        self._write("secrets/encryption_keys", f"2026-11:{self.key}\n")
        self._write("secrets/page_tokens", f"ada: {self.token}\n")
        self._write("workshop/workshop.yaml", WORKSHOP)
        self._write("workshop/files/readme.txt", "A file of the workers.\n")
        self._write("workshop/workers/keeper/worker.worker", KEEPER)
        self._write("workshop/workers/keeper/tools.py", TOOLS)
        self._write("workshop/workers/reader.worker", READER)
        self._write("workshop/workers/asker.worker", ASKER)
        self._write("workshop/workers/teller.worker", TELLER)
        if not os.getuid():
            for path in (self.folder / "secrets", self.workshop):
                for one in (path, *path.rglob("*")):
                    os.chown(one, *owner)

    def _write(self, name: str, text: str) -> None:
        (path := self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    @property
    def workshop(self) -> Path:
        """The folder that the services share."""
        return self.folder / "workshop"

    def address(self, port: str) -> str:
        """Where a published port is reached."""
        return f"http://127.0.0.1:{self.ports[port]}"

    def setting(self, name: str) -> str:
        """The value of a variable of the services."""
        found = re.search(rf"^{name}=(.*)$", (self.folder / "env").read_text(), re.MULTILINE)
        assert found is not None, name
        return found[1]

    def sql(self, database: str, query: str) -> str:
        """The rows of an answer of PostgreSQL."""
        asked = ("--username", "temporal", "--no-align", "--tuples-only", "--command", query, database)
        return self.compose("exec", "-T", "postgresql", "psql", *asked).stdout.strip()

    def docker(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `docker` with nothing of this shell's settings for the services."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k.startswith(("DOCKER_", "BUILD"))}
        done = subprocess.run(["docker", *arguments], cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def compose(
        self, *arguments: str, check: bool = True, also: tuple[Path, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run `docker compose` for this project."""
        files = [word for file in (*_FILES, *also) for word in ("--file", str(file))]
        named = ["--project-name", self.project, "--project-directory", str(ROOT)]
        settings = ["--env-file", str(self.folder / "env")]
        return self.docker("compose", *named, *settings, *files, *arguments, check=check)

    def ours(self, *arguments: str, check: bool = True, service: str = "page") -> subprocess.CompletedProcess[str]:
        """Run a command of ours beside the page, which no fault strikes."""
        return self.compose("exec", "-T", service, "llm-do-temporal", *arguments, check=check)

    def up(self, *arguments: str, also: tuple[Path, ...] = ()) -> None:
        """Bring up what is not up, and wait until all of it is well."""
        try:
            self.compose("up", "--detach", "--no-build", *arguments, also=also)
            eventually(lambda: not self.unwell() or None, "all services are well")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.unwell()}\n{self.logs()}") from None

    def down(self) -> None:
        """Take all of it away, with what it kept."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5", check=False)

    def containers(self, *services: str) -> list[dict[str, Any]]:
        """What `docker compose ps` tells of all containers, or of those of some services."""
        said = self.compose("ps", "--all", "--format", "json", *services).stdout
        # A list in older versions, an object a line in newer ones.
        return json.loads(said) if said.startswith("[") else [json.loads(line) for line in said.splitlines()]

    def unwell(self) -> dict[str, str]:
        """The containers that are not as they should be, and how they are."""
        found: dict[str, str] = {}
        for one in self.containers():
            how = f"{one['State']} {one['Health']} {one['ExitCode']}"
            fine = how == "exited  0" if one["Service"] in ONCE else how in ("running healthy 0", "running  0")
            if not fine:
                found[one["Name"]] = how
        return found

    def logs(self) -> str:
        """The last lines of everybody."""
        return self.compose("logs", "--no-color", "--tail", "40", check=False).stdout[-20_000:]
