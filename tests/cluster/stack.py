"""The cluster as the tests of the compose file know that: the same workshop, secrets and questions, no container."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.cluster.cluster import Cluster
from tests.cluster.processes import last_line
from tests.cluster.state import default_folder
from tests.compose.script import TOOLS, WORKSHOP, answer
from tests.compose.stack import ROOT, Stack
from tests.support.providers.provider import FakeProvider

Kind = TypeVar("Kind", bound="ProcessStack")
SERVICES = ("worker-1", "worker-2", "worker-3")
_IN_CONTAINERS = "http://provider:9000/v1"


@dataclass
class ProcessStack(Stack):
    """A cluster with a model that follows a script, and with the workshop of the tests of the compose file."""

    provider: FakeProvider = field(default_factory=lambda: FakeProvider(answer))
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert _IN_CONTAINERS in WORKSHOP
        self._write("workshop/workshop.yaml", WORKSHOP.replace(_IN_CONTAINERS, self.provider.url))
        # The processes have one host name: each is known by its own.
        name = "os.environ['WORKER_SERVICE']"
        self._write("workshop/workers/keeper/tools.py", TOOLS.replace("socket.gethostname()", name))
        variables = {one: {"WORKER_SERVICE": one} for one in SERVICES}
        self.cluster = Cluster(self.folder, self.workshop, len(SERVICES), variables=variables)

    def up(self, *arguments: str, also: tuple[Path, ...] = ()) -> None:
        """Start all of it that does not run, and wait until it is well."""
        assert not arguments
        assert not also
        self.provider.__enter__()
        self.cluster.up()
        ports = self.cluster.services.ports
        self.ports = {"PAGE_PORT": ports["page"], "CODEC_PORT": ports["codec"], "TEMPORAL_PORT": ports["frontend.grpc"]}

    def down(self) -> None:
        self.cluster.down()
        self.provider.close()

    def ours(self, *arguments: str, check: bool = True, service: str = "page") -> subprocess.CompletedProcess[str]:
        """Run a command of ours with what the page is told."""
        assert service == "page"
        program = Path(sys.executable).with_name("llm-do-temporal")
        variables = dict(self.cluster.processes["page"].variables)
        done = subprocess.run(
            [program, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def restart(self, *names: str) -> None:
        """Kill these processes at the same moment, and start them again."""
        killed = [self.cluster.processes[name] for name in names]
        for one in killed:
            one.kill()
        for one in killed:
            one.start()
        for one in killed:
            one.await_well()

    def logs(self) -> str:
        """The last line of every log."""
        return "\n".join(f"{path.name}: {last_line(path)}" for path in sorted((self.folder / "logs").iterdir()))


@contextmanager
def running(kind: type[Kind]) -> Generator[Kind]:
    """A cluster of this kind in a folder of its own; all of it is taken away at the end."""
    # Not below the folders of pytest: PostgreSQL may be another account, and has to get to its own files.
    with tempfile.TemporaryDirectory(dir=default_folder().parent, prefix="llm-do-cluster-") as folder:
        stack = kind(Path(folder))
        try:
            stack.up()
            yield stack
        finally:
            stack.down()
