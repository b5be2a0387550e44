"""Processes of the compose file but for PostgreSQL: Temporal's roles, the object store, and our own programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.client.embedded.host import temporal_binary
from llm_do_temporal.client.embedded.server import accepts
from tests.cluster.binaries import Module
from tests.cluster.composition import Composition
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process, answers, last_line
from tests.cluster.state import Place
from tests.support.deploy.programs import OPEN_PAGES, ROOT

ROLES = ("history", "matching", "frontend", "worker")
"""Of the Temporal server, each in a process of its own. The last one is the server's own, for its system workflows."""
_SCRIPTS = ROOT / "deploy/compose/temporal"
_LISTENERS = ("grpc", "membership", "metrics")
_STATIC = ("blobs", "sql", "page", "codec", "frontend.http", "temporal-ui")


def port_names(workers: int) -> list[str]:
    """Names of all ports that a cluster needs."""
    roles = [f"{role}.{what}" for role in ROLES for what in _LISTENERS]
    return [*roles, *_STATIC, *(f"worker-{n}.{what}" for n in range(1, workers + 1) for what in ("health", "metrics"))]


@dataclass(frozen=True)
class Services:
    place: Place
    composition: Composition
    ports: Mapping[str, int]
    workshop: Path
    dynamic_settings: Path
    temporal: Module
    versitygw: Module

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports['frontend.grpc']}"

    @property
    def _exchanged(self) -> dict[str, str]:
        return {
            "http://blobs:7070": f"http://127.0.0.1:{self.ports['blobs']}",
            "temporal:7233": self.address,
            "0.0.0.0": "127.0.0.1",
            "/run/secrets/encryption_keys": str(self.place.keys),
            "/run/secrets/page_tokens": str(self.place.tokens),
            "/workshop": str(self.workshop),
            "--port=8234": f"--port={self.ports['page']}",
            "--port=8235": f"--port={self.ports['codec']}",
        }

    def role(self, name: str) -> Process:
        told = self.composition.environment(
            "temporal",
            {
                "POSTGRES_SEEDS": "127.0.0.1",
                "DB_PORT": str(self.ports["sql"]),
                "DYNAMIC_CONFIG_FILE_PATH": str(self.dynamic_settings),
                "PROMETHEUS_ENDPOINT": f"127.0.0.1:{self.ports[f'{name}.metrics']}",
            },
            self._exchanged,
        )
        for role in ROLES:
            told[f"{role.upper()}_GRPC_PORT"] = str(self.ports[f"{role}.grpc"])
            told[f"{role.upper()}_MEMBERSHIP_PORT"] = str(self.ports[f"{role}.membership"])
        told["FRONTEND_HTTP_PORT"] = str(self.ports["frontend.http"])
        ports = {what: self.ports[f"{name}.{what}"] for what in _LISTENERS}
        if name == "frontend":
            ports["http"] = self.ports["frontend.http"]
        # The server's own worker has no port but that of membership.
        asked = ports["membership" if name == "worker" else "grpc"]
        process = Process(
            name=f"temporal-{name}",
            command=[str(self.temporal.home / "temporal-server"), "--allow-no-auth", "start", "--service", name],
            variables={**_system(), **told},
            log=self.place.log(f"temporal-{name}"),
            ports=ports,
            is_well=lambda: False,
        )
        process.is_well = lambda: accepts(f"{process.variables['BIND_ON_IP']}:{asked}")
        return process

    def blobs(self) -> Process:
        """The object store, which keeps its objects in a folder."""
        port = self.ports["blobs"]
        told = self.composition.environment("blobs", {"VGW_PORT": f"127.0.0.1:{port}"}, self._exchanged)
        command = self.composition.command("blobs", {"/data": str(self.place.folder / "blobs")})
        return Process(
            name="blobs",
            command=[str(self.versitygw.home / "versitygw"), *command],
            variables={**_system(), **told},
            log=self.place.log("blobs"),
            ports={"s3": port},
            is_well=lambda: answers(f"http://127.0.0.1:{port}{told['VGW_HEALTH']}"),
        )

    def worker_service(self, number: int) -> Process:
        name = f"worker-{number}"
        health, metrics = self.ports[f"{name}.health"], self.ports[f"{name}.metrics"]
        changed = {"LLM_DO_HEALTH_PORT": str(health), "LLM_DO_METRICS_PORT": str(metrics)}
        process = self._ours("worker", name, changed, {"health": health, "metrics": metrics})
        process.is_well = lambda: answers(f"http://127.0.0.1:{health}/readyz")
        return process

    def page(self) -> Process:
        return self._ours("page", "page", {}, {"http": self.ports["page"]})

    def codec_server(self) -> Process:
        return self._ours("codec-server", "codec-server", {}, {"http": self.ports["codec"]})

    def client_variables(self) -> dict[str, str]:
        """What our commands are told, so that they reach this cluster as the page does."""
        told = self.composition.environment("page", {}, self._exchanged)
        passed = ("TEMPORAL_", "AWS_", "LLM_DO_ENCRYPTION", "LLM_DO_BLOBS", "LLM_DO_WORKSHOP")
        return {name: value for name, value in told.items() if name.startswith(passed)}

    def make_tables(self) -> None:
        """Run the compose file's script for the tables. Raises ClusterError."""
        changed = {"SQL_HOST": "127.0.0.1", "SQL_PORT": str(self.ports["sql"])}
        told = self.composition.environment("temporal-schema", changed, self._exchanged)
        told["TABLES"] = str(self.temporal.home / "schema/postgresql/v12")
        self._run("schema.sh", told, self.temporal.home)

    def make_namespace(self) -> None:
        """Run the compose file's script for the namespace. Raises ClusterError."""
        told = self.composition.environment("temporal-namespace", {}, self._exchanged)
        self._run("namespace.sh", told, Path(temporal_binary()).parent)

    def _ours(self, service: str, name: str, changed: Mapping[str, str], ports: Mapping[str, int]) -> Process:
        told = self.composition.environment(service, changed, self._exchanged)
        if service != "worker":
            told = {key: value for key, value in told.items() if not key.endswith(("HEALTH_PORT", "METRICS_PORT"))}
        command = self.composition.command(service, self._exchanged)
        path = OPEN_PAGES.get(command[0], "")
        return Process(
            name=name,
            command=[str(Path(sys.executable).with_name("llm-do-temporal")), *command],
            variables={**_system(), **told},
            log=self.place.log(name),
            ports=ports,
            is_well=lambda: answers(f"http://127.0.0.1:{ports['http']}{path}"),
        )

    def _run(self, script: str, told: Mapping[str, str], programs: Path) -> None:
        log = self.place.log(script)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        with log.open("ab") as file:
            done = subprocess.run(
                ["sh", _SCRIPTS / script],
                env={**_system(), **told, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                check=False,
            )
        if done.returncode != 0:
            raise ClusterError(f"deploy/compose/temporal/{script} failed: {last_line(log)}\nIts log: {log}")


def _system() -> dict[str, str]:
    """Of this process's own variables those that programs need anywhere."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
