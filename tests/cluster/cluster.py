"""Cluster as a whole: what is started after what, and how all of it is taken down again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from llm_do_temporal.client.embedded.server import locked
from tests.cluster import postgresql
from tests.cluster.binaries import build, wanted_modules
from tests.cluster.composition import fill_settings, read_composition
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process
from tests.cluster.services import ROLES, Services, port_names
from tests.cluster.state import Kept, Place, RunningCluster, write_running
from tests.support.deploy.programs import ROOT
from tests.support.servers.session import Options

_SCHEMA_TRIES = 5
"""As often as docker-compose.yml lets the service for the tables start."""
_RETRY_SECONDS = 1.0
DYNAMIC_SETTINGS = ROOT / "deploy/compose/temporal/dynamicconfig.yaml"


@dataclass
class Cluster:
    """The services of docker-compose.yml, but for those that only look on, as processes of this machine.

    Started and stopped by `up` and `down`, each process also by itself: `cluster.processes["temporal-history"].kill()`.
    """

    folder: Path
    workshop: Path = ROOT / "workers"
    workers: int = 2
    server_only: bool = False
    """Whether there is the Temporal server on PostgreSQL alone, with no object store and nothing of ours."""
    dynamic_settings: Path = DYNAMIC_SETTINGS
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """More variables for single processes, like `{"temporal-frontend": {"LOG_LEVEL": "warn"}}`."""
    tell: Callable[[str], None] = print
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    _services: Services | None = None
    _running: RunningCluster | None = None

    @property
    def place(self) -> Place:
        return Place(self.folder)

    @property
    def services(self) -> Services:
        """Its services. Raises ClusterError before it was started."""
        if self._services is None:
            raise ClusterError("the cluster was not started")
        return self._services

    @property
    def running(self) -> RunningCluster:
        """What others may know of it. Raises ClusterError before it was started."""
        if self._running is None:
            raise ClusterError("the cluster was not started")
        return self._running

    def up(self) -> None:
        """Start everything, and return once all of it is well. Raises ClusterError; then nothing is left running."""
        try:
            self._up()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stop everything: what asks first, then what is asked."""
        self.place.state.unlink(missing_ok=True)
        for process in self.processes.values():
            if process.name.startswith(("worker-", "page", "codec")) and process.popen is not None:
                process.popen.terminate()
        for process in reversed(self.processes.values()):
            process.stop()

    def write_state(self) -> None:
        """Write down what runs now, for others."""
        write_running(self.place, self.running, self.processes)

    def _up(self) -> None:
        services = self._services = self._prepare()
        self._running = self._describe()
        self.write_state()
        folder, log = self.folder / "postgresql", self.place.log("postgresql")
        told = services.composition.command("postgresql", {})
        sql = self._add(postgresql.server(folder, services.ports["sql"], log, told))
        store = None if self.server_only else self._add(services.blobs())
        sql.await_well()
        _patiently(services.make_tables)
        first, *others = (services.role(name) for name in ROLES)
        # With a new database the first one gives the cluster its id, which two at once cannot.
        self._add(first).await_well()
        for one in others:
            self._add(one)
        for one in others:
            one.await_well()
        services.make_namespace()
        if store is not None:
            store.await_well()
            ours = [services.worker_service(number) for number in range(1, self.workers + 1)]
            ours += [services.page(), services.codec_server()]
            for one in ours:
                self._add(one)
            for one in ours:
                one.await_well()
        self._running = replace(self.running, ready=True)
        self.write_state()

    def _prepare(self) -> Services:
        # Before the programs are built, which takes minutes.
        postgresql.find_programs()
        postgresql.account()
        place = self.place
        place.make()
        for log in (self.folder / "logs").iterdir():
            log.unlink()
        kept = Kept.of(place, port_names(self.workers))
        ports = {"PAGE_PORT": kept.ports["page"], "CODEC_PORT": kept.ports["codec"]}
        ports |= {"TEMPORAL_PORT": kept.ports["frontend.grpc"], "TEMPORAL_UI_PORT": kept.ports["temporal-ui"]}
        values = {**kept.passwords, "LLM_DO_UID": "1", "LLM_DO_GID": "1", "WORKSHOP": str(self.workshop)}
        values |= {name: str(port) for name, port in ports.items()}
        place.write(place.settings, fill_settings(values))
        composition = read_composition(place.settings)
        temporal, versitygw = wanted_modules(composition.version("temporal"), composition.version("blobs"))
        for module in (temporal, versitygw):
            build(module, self.tell)
        data = self.folder / "postgresql"
        postgresql.make_database(data, kept.passwords["POSTGRES_PASSWORD"], place.log("initdb"))
        return Services(place, composition, kept.ports, self.workshop, self.dynamic_settings, temporal, versitygw)

    def _add(self, process: Process) -> Process:
        process.variables = {**process.variables, **self.variables.get(process.name, {})}
        self.processes[process.name] = process
        process.start()
        return process

    def _describe(self) -> RunningCluster:
        services = self.services
        variables = services.client_variables()
        addresses: dict[str, str] = {}
        if not self.server_only:
            http = {"page": "page", "codec server": "codec", "object store": "blobs"}
            addresses = {name: f"http://127.0.0.1:{services.ports[port]}" for name, port in http.items()}
            text = "".join(f"{name}={value}\n" for name, value in sorted(variables.items()))
            self.place.write(self.place.client, text)
        return RunningCluster(os.getpid(), services.address, variables["TEMPORAL_NAMESPACE"], addresses)


@contextmanager
def held(folder: Path) -> Generator[Place]:
    """A folder in which nobody else runs a cluster while the block does. Raises ClusterError where somebody does."""
    place = Place(folder)
    place.make()
    with locked(place.lock) as mine:
        if mine is None:
            raise ClusterError(f"a cluster runs in {folder} already: `make cluster-down` ends it")
        yield place


def merge_settings(base: Path, options: Sequence[Options]) -> str:
    """The text of a file of dynamic settings with those of these options added.

    A setting that the file has stays what it is, but for the namespaces of the options that have another value.
    """
    settings: dict[str, list[dict[str, Any]]] = yaml.safe_load(base.read_text(encoding="utf-8"))
    for one in options:
        for name, value in one.settings.items():
            if name in settings:
                settings[name] += [{"value": value, "constraints": {"namespace": it}} for it in one.namespaces()]
            else:
                settings[name] = [{"value": value}]
    return yaml.safe_dump(settings)


def is_running(folder: Path) -> bool:
    """Whether a process runs a cluster in this folder."""
    lock = Place(folder).lock
    if not lock.exists():
        return False
    # Shared: two commands that look at the same moment must not take each other for a cluster.
    with locked(lock, shared=True) as free:
        return free is None


def _patiently(step: Callable[[], None]) -> None:
    for _ in range(_SCHEMA_TRIES - 1):
        try:
            return step()
        except ClusterError:
            time.sleep(_RETRY_SECONDS)
    return step()
