"""Command of `make cluster`, `make cluster-down`, `make cluster-test` and `make bench-cluster`.

python -m tests.cluster up [--folder FOLDER] [--workshop FOLDER] [--workers N]
python -m tests.cluster down [--folder FOLDER]
python -m tests.cluster build
python -m tests.cluster built
python -m tests.cluster run [--server-only] COMMAND …
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from tests.cluster.binaries import Module, build, wanted_modules
from tests.cluster.cluster import DYNAMIC_SETTINGS, Cluster, held, is_running, merge_settings
from tests.cluster.composition import fill_settings, make_passwords, read_composition
from tests.cluster.errors import ClusterError
from tests.cluster.postgresql import find_programs
from tests.cluster.processes import STOP_SECONDS, last_line
from tests.cluster.state import Place, RunningCluster, default_folder, read_running
from tests.support.deploy.programs import ROOT
from tests.support.servers.session import ALL, SERVER_VARIABLE

_LOOK_SECONDS = 1.0
_DOWN_SECONDS = 2 * STOP_SECONDS


def main(arguments: Sequence[str]) -> int:
    """Do what is said; 2 where that cannot be."""
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.does(chosen)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2
    except _Told as told:
        return told.code


def _up(chosen: argparse.Namespace) -> int:
    place = Place(chosen.folder)
    if is_running(chosen.folder):
        running = read_running(place)
        if running is None or not running.ready:
            raise ClusterError(f"a cluster is beginning or ending in {chosen.folder}: try again in a minute")
        print("It runs already, and is left as it is.")
        _show(place, running)
        return 0
    with held(chosen.folder), _told_to_end():
        began = time.monotonic()
        cluster = Cluster(chosen.folder, chosen.workshop.resolve(), chosen.workers)
        cluster.up()
        try:
            _show(place, cluster.running)
            print(f"\nUp after {time.monotonic() - began:.0f} s. Ctrl-C or `make cluster-down` ends it.", flush=True)
            _keep(cluster)
        finally:
            print("\nending …", flush=True)
            cluster.down()
    return 0


def _keep(cluster: Cluster) -> NoReturn:
    """Start again what ends, as docker-compose.yml has it."""
    while True:
        time.sleep(_LOOK_SECONDS)
        ended = [one for one in cluster.processes.values() if one.pid is None]
        for one in ended:
            print(f"{one.name} has ended, and is started again; its last line: {last_line(one.log)}", flush=True)
            one.start()
        if ended:
            cluster.write_state()


def _down(chosen: argparse.Namespace) -> int:
    if not is_running(chosen.folder):
        print(f"no cluster runs in {chosen.folder}")
        return 0
    # None: it ends already.
    if running := read_running(Place(chosen.folder)):
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_SECONDS
    while is_running(chosen.folder):
        if time.monotonic() > deadline:
            raise ClusterError(f"the cluster in {chosen.folder} does not end; the logs are in its folder")
        time.sleep(0.1)
    print(f"down; what it keeps is in {chosen.folder}")
    return 0


def _run(chosen: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(dir=default_folder().parent, prefix="llm-do-cluster-") as made, _told_to_end():
        folder = Path(made)
        (settings := folder / "dynamicconfig.yaml").write_text(merge_settings(DYNAMIC_SETTINGS, ALL))
        cluster = Cluster(folder, chosen.workshop.resolve(), chosen.workers, chosen.server_only, settings)
        cluster.up()
        try:
            print(f"Temporal server on PostgreSQL at {cluster.running.address}", file=sys.stderr, flush=True)
            variables = {**os.environ, SERVER_VARIABLE: cluster.running.address}
            return subprocess.run(chosen.command, env=variables, check=False).returncode
        finally:
            cluster.down()


def _build(_: argparse.Namespace) -> int:
    with _told_to_end():
        for module in _modules():
            build(module, print)
            print(f"{module.name} {module.version}: {module.home}")
    return 0


def _built(_: argparse.Namespace) -> int:
    missing = [
        f"{one.name} {one.version} is not built: `make cluster` builds it" for one in _modules() if not one.is_built()
    ]
    find_programs()
    if missing:
        raise ClusterError("; ".join(missing))
    return 0


def _modules() -> tuple[Module, Module]:
    with tempfile.TemporaryDirectory() as made:
        (settings := Path(made) / "env").write_text(
            fill_settings({**make_passwords(), "LLM_DO_UID": "1", "LLM_DO_GID": "1"})
        )
        composition = read_composition(settings)
    return wanted_modules(composition.version("temporal"), composition.version("blobs"))


def _show(place: Place, running: RunningCluster) -> None:
    rows = [("Temporal server", f"{running.address}, namespace {running.namespace}"), *running.addresses.items()]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:{width}}  {value}")
    print(f"\nSign in at the page with the token {place.token()}")
    print(f"Processes, ports and logs: {place.state}")
    print("Our commands reach it with its settings:")
    print(f"  (set -a; . {place.client}; .venv/bin/llm-do-temporal start approvals_demo 'buy bread' --detach)")


class _Told(BaseException):
    """Somebody ends this program by a signal; not an error, so nothing takes it for one."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def _told_to_end() -> Generator[None]:
    """Leave the block on SIGINT, SIGTERM and SIGHUP, by what cleans up; a second signal does not disturb that."""

    def leave(number: int, _frame: object) -> None:
        for one in signals:
            signal.signal(one, signal.SIG_IGN)
        raise _Told(0 if number in (signal.SIGINT, signal.SIGTERM) else 128 + number)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for one in signals:
        signal.signal(one, leave)
    yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", description="docker-compose.yml without containers."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, does, text in (
        ("up", _up, "start everything, print the addresses, and go on until Ctrl-C"),
        ("down", _down, "end what `up` started"),
        ("build", _build, "build the programs that are missing"),
        ("built", _built, "say what is missing to start a cluster at once; exits 0 where nothing is"),
        ("run", _run, "run a command beside a cluster of its own, which is gone afterwards"),
    ):
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(does=does)
        if name in ("up", "down"):
            one.add_argument("--folder", type=Path, default=default_folder(), help="where it is kept (%(default)s)")
        if name in ("up", "run"):
            one.add_argument("--workshop", type=Path, default=ROOT / "workers", help="whose workers (%(default)s)")
            one.add_argument("--workers", type=int, default=2, help="how many worker services (%(default)s)")
        if name == "run":
            one.add_argument("--server-only", action="store_true", help="only the Temporal server on PostgreSQL")
            one.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
