"""Cluster whose connections tests cut: of a worker service to server and blobs, of the frontend to history."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.faults.relay import Relay, ports_of
from tests.cluster.faults.script import APPROVALS, ASKER, CLERK, HASTY, NOTE, answer
from tests.cluster.services import port_names
from tests.cluster.stack import ProcessStack
from tests.cluster.state import Kept, Place
from tests.compose.stack import eventually
from tests.support.providers.provider import FakeProvider

SERVICES = ("worker-1", "worker-2")
ROLES = ("temporal-history", "temporal-matching", "temporal-frontend", "temporal-worker")
_HISTORY, _HISTORY_SAID = "127.0.0.2", "127.0.0.3"
"""Where history listens, and where it tells the other roles to find it: there the relay is."""
NO_CONNECTION = 4
"""Exit code of our commands."""


@dataclass
class FaultStack(ProcessStack):
    """A cluster of two worker services with relays in between, and the workshop of the clerk."""

    provider: FakeProvider = field(default_factory=lambda: FakeProvider(answer))
    to_history: tuple[Relay, ...] = field(init=False)
    """Of all other roles."""
    of_worker: dict[str, tuple[Relay, ...]] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        workshop = (self.workshop / "workshop.yaml").read_text()
        self._write("workshop/workshop.yaml", workshop + APPROVALS)
        for name, text in {"clerk": CLERK, "asker": ASKER, "hasty": HASTY}.items():
            self._write(f"workshop/workers/{name}.worker", text)
        self._write("workshop/files/note.sh", NOTE)
        for path in (self.workshop, *self.workshop.rglob("*")):
            os.chown(path, os.getuid(), os.getgid())
        ports = Kept.of(Place(self.folder), port_names(len(SERVICES))).ports
        listeners = [ports["history.grpc"], ports["history.membership"]]
        self.to_history = tuple(Relay((_HISTORY, port), (_HISTORY_SAID, port)) for port in listeners)
        server = f"127.0.0.1:{ports['frontend.grpc']}"
        # Its own address is no address of the cluster: all roles must tell the database the same of that.
        history = {"BIND_ON_IP": _HISTORY, "TEMPORAL_BROADCAST_ADDRESS": _HISTORY_SAID, "CLUSTER_RPC_ADDRESS": server}
        history["CLUSTER_HTTP_ADDRESS"] = f"127.0.0.1:{ports['frontend.http']}"
        variables = {"temporal-history": history}
        self.of_worker = {}
        for name in SERVICES:
            server, blobs = (Relay(("127.0.0.1", ports[one])) for one in ("frontend.grpc", "blobs"))
            self.of_worker[name] = (server, blobs)
            addresses = (f"127.0.0.1:{server.port}", f"http://127.0.0.1:{blobs.port}")
            variables[name] = dict(zip(("TEMPORAL_ADDRESS", "AWS_ENDPOINT_URL"), addresses, strict=True))
        self.cluster = Cluster(self.folder, self.workshop, len(SERVICES), variables=variables)

    @property
    def files(self) -> Path:
        """The folder of the workers."""
        return self.workshop / "files"

    @property
    def relays(self) -> tuple[Relay, ...]:
        """All that can be cut."""
        return (*self.to_history, *(one for relays in self.of_worker.values() for one in relays))

    def down(self) -> None:
        super().down()
        for relay in self.relays:
            relay.close()

    def cut_worker(self, name: str) -> None:
        """Cut a worker service from the server and from the blobs."""
        for relay in self.of_worker[name]:
            relay.cut()

    def cut_frontend_from_history(self) -> None:
        """Cut what the frontend asks history; the other roles go on asking it."""
        frontend = ports_of(self.cluster.processes["temporal-frontend"].pid)
        for relay in self.to_history:
            relay.cut(frontend)

    def exchange(self, name: str, variables: Mapping[str, str]) -> None:
        """Stop a process, and start it again with other variables."""
        process = self.cluster.processes[name]
        process.stop()
        process.variables = variables
        process.start()
        process.await_well()

    def restart(self, *names: str) -> None:
        """Kill these processes at the same moment, and start them again."""
        for name in names:
            self.cluster.processes[name].kill()
        self.revive()

    def mend(self) -> None:
        """Mend every network, and start again what does not run."""
        for relay in self.relays:
            relay.mend()
        self.revive()

    def revive(self) -> None:
        """Start what does not run, again and again as docker-compose.yml has it, until all of it is well."""
        processes = self.cluster.processes.values()

        def are_well() -> bool:
            for process in processes:
                process.start()
            return all(process.is_well() and process.pid is not None for process in processes)

        eventually(are_well, "all processes are well")
