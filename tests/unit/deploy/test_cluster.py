"""Cluster of processes: what it takes from docker-compose.yml, and what it says where something is missing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from llm_do_temporal.client.embedded.server import locked
from tests.chart.__main__ import main as ask_chart
from tests.cluster import binaries, postgresql
from tests.cluster.__main__ import main
from tests.cluster.binaries import Module, build, wanted_modules
from tests.cluster.cluster import DYNAMIC_SETTINGS, Cluster, held, merge_settings
from tests.cluster.composition import Composition, fill_settings, make_passwords, read_composition
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Process, free_ports, listens
from tests.cluster.services import ROLES, Services, port_names
from tests.cluster.state import Kept, Place, RunningCluster, read_running, write_running
from tests.support.servers.session import ALL, HASTY

MODULE = Module("nothing", "example.com/nothing", "1.0.0", (("cmd/nothing", "nothing"),))


@pytest.fixture(scope="module")
def composition(tmp_path_factory: pytest.TempPathFactory) -> Composition:
    settings = tmp_path_factory.mktemp("settings") / "env"
    settings.write_text(fill_settings({**make_passwords(), "LLM_DO_UID": "1", "LLM_DO_GID": "1"}))
    return read_composition(settings)


@pytest.fixture
def services(composition: Composition, tmp_path: Path) -> Services:
    ports = {name: number for number, name in enumerate(port_names(2), start=20_000)}
    temporal, store = wanted_modules(composition.version("temporal"), composition.version("blobs"))
    (place := Place(tmp_path)).make()
    return Services(place, composition, ports, tmp_path / "workshop", DYNAMIC_SETTINGS, temporal, store)


def processes(services: Services) -> list[Process]:
    own = [services.blobs(), services.page(), services.codec_server()]
    return [*(services.role(name) for name in ROLES), *own, services.worker_service(1), services.worker_service(2)]


def test_the_versions_are_those_of_the_images(composition: Composition) -> None:
    temporal, store = wanted_modules(composition.version("temporal"), composition.version("blobs"))
    assert f"temporalio/server:{temporal.version}" == composition.services["temporal"]["image"]
    assert f"versity/versitygw:v{store.version}" == composition.services["blobs"]["image"]
    assert temporal.home.name == f"temporal-{temporal.version}"


def test_every_process_is_told_what_its_container_is_told(services: Services) -> None:
    history = services.role("history")
    told = services.composition.services["temporal"]["environment"]
    assert history.variables["NUM_HISTORY_SHARDS"] == told["NUM_HISTORY_SHARDS"]
    assert history.variables["BIND_ON_IP"] == "127.0.0.1"
    worker = services.worker_service(1)
    assert worker.variables["LLM_DO_ISOLATION"] == "required"
    assert worker.variables["LLM_DO_ENCRYPTION"] == "required"
    assert worker.variables["LLM_DO_ENCRYPTION_KEY_FILE"] == str(services.place.keys)
    assert worker.variables["TEMPORAL_ADDRESS"] == services.address
    assert worker.variables["AWS_ENDPOINT_URL"] == f"http://127.0.0.1:{services.ports['blobs']}"
    assert f"--port={services.ports['page']}" in services.page().command
    # A process of its own for each role, and a port of its own for each that listens.
    assert [one.command[-1] for one in processes(services)[: len(ROLES)]] == list(ROLES)
    ports = [port for one in processes(services) for port in one.ports.values()]
    assert len(ports) == len(set(ports))


def test_nothing_of_a_container_is_left_in_what_they_are_told(services: Services) -> None:
    said = " ".join(word for one in processes(services) for word in (*one.command, *one.variables.values()))
    for name in ("0.0.0.0", "/run/secrets", "/setup", "temporal:7233", "blobs:7070"):
        assert name not in said


def test_what_the_compose_file_has_no_more_is_an_error(services: Services, composition: Composition) -> None:
    with pytest.raises(ClusterError, match=r"'temporal' of docker-compose.yml has no POSTGRES_SEED any more"):
        composition.environment("temporal", {"POSTGRES_SEED": "x"}, {})
    known = ("0.0.0.0", "temporal:7233", "http://blobs:7070", "/workshop")
    with pytest.raises(ClusterError, match="has '/run/secrets', for which there is nothing here"):
        composition.environment("page", {}, dict.fromkeys(known, "x"))


def test_variables_that_the_file_passes_on_are_those_of_this_process(
    composition: Composition, monkeypatch: pytest.MonkeyPatch, services: Services
) -> None:
    assert composition.services["worker"]["environment"]["LLM_DO_MODEL"] is None
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)
    assert "LLM_DO_MODEL" not in services.worker_service(1).variables
    monkeypatch.setenv("LLM_DO_MODEL", "offline:notes")
    assert services.worker_service(1).variables["LLM_DO_MODEL"] == "offline:notes"


def test_settings_of_tests_are_added_and_change_no_other_namespace() -> None:
    before = yaml.safe_load(DYNAMIC_SETTINGS.read_text())
    after = yaml.safe_load(merge_settings(DYNAMIC_SETTINGS, ALL))
    assert {name: values[: len(before[name])] for name, values in after.items() if name in before} == before
    (name,) = HASTY.settings
    added = after[name][len(before[name]) :]
    assert [one["constraints"]["namespace"] for one in added] == HASTY.namespaces()
    assert HASTY.namespace("gw1") in HASTY.namespaces()


def test_ports_are_different_and_stay_what_they_were(tmp_path: Path) -> None:
    names = port_names(2)
    ports = free_ports(names, {})
    assert len(set(ports.values())) == len(names)
    assert free_ports(names, ports) == ports
    (place := Place(tmp_path)).make()
    first = Kept.of(place, names)
    assert Kept.of(place, names) == first
    assert oct((tmp_path / "kept.json").stat().st_mode & 0o777) == "0o600"


def test_a_port_that_somebody_took_is_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert free_ports(["one"], {"one": taken.getsockname()[1]})["one"] != taken.getsockname()[1]


def test_without_go_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert MODULE.home == tmp_path / "llm-do-temporal/cluster/nothing-1.0.0"
    with pytest.raises(ClusterError, match=r"there is no `go` to build it with: install Go"):
        build(MODULE, print)


def test_a_build_that_fails_leaves_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fake_go(tmp_path, monkeypatch, "echo 'no such module' >&2; exit 1")
    with pytest.raises(
        ClusterError, match=r"`go install example.com/nothing/cmd/nothing@v1.0.0` failed: no such module"
    ):
        build(MODULE, print)
    assert not MODULE.is_built()
    assert [path.name for path in binaries.programs_folder().iterdir()] == ["build.lock"]


def test_a_program_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (binaries.programs_folder() / ".building-killed").mkdir(parents=True)
    fake_go(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/ran; mkdir -p "$GOBIN"; echo program > "$GOBIN/any"')
    said: list[str] = []
    for _ in range(2):
        build(MODULE, said.append)
    assert MODULE.is_built()
    assert (MODULE.home / "nothing").read_text() == "program\n"
    assert (tmp_path / "ran").read_text() == "install example.com/nothing/cmd/nothing@v1.0.0\n"
    assert len(said) == 1
    assert sorted(path.name for path in binaries.programs_folder().iterdir()) == ["build.lock", "nothing-1.0.0"]


FAKE_BUILD = """
case "$1 $2" in
    'mod download') echo '{"Dir": "SOURCE"}' ;;
    'mod edit') echo '{"Go": "1.26.0", "Require": [
        {"Path": "own", "Version": "v0.0.0"}, {"Path": "b", "Version": "v1.2.3"}]}' ;;
    build*) echo program > "$4"; { cat go.mod go.sum; echo "$5 $6"; } > SOURCE/built ;;
esac
"""


def test_modules_of_its_own_folders_are_taken_as_they_are_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "go.sum").write_text("the sums of its authors\n")
    fake_go(tmp_path, monkeypatch, FAKE_BUILD.replace("SOURCE", str(tmp_path)))
    staged = replace(MODULE, staged="0.7.0", linked=("version=v1.0.0",))
    build(staged, lambda _: None)
    assert (staged.home / "nothing").read_text() == "program\n"
    assert (tmp_path / "built").read_text().splitlines()[1:] == [
        "go 1.26.0",
        "require example.com/nothing v1.0.0",
        "replace own => own v0.7.0",
        "the sums of its authors",
        "-ldflags=-s -w -X version=v1.0.0 example.com/nothing/cmd/nothing",
    ]


def test_what_is_missing_for_the_chart_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert ask_chart(["built"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"chart: not built: kubernetes 1\..*, helm 4\..*; `make chart-test` builds them\n", said)
    assert ask_chart(["build"]) == 2
    assert "there is no `go` to build it with" in capsys.readouterr().err


def fake_go(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a `go` on the PATH that is a shell script."""
    (go := folder / "go").write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_postgresql_it_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgresql, "_INSTALLED", tmp_path)
    with pytest.raises(ClusterError, match="apt-get install postgresql"):
        postgresql.find_programs()


def test_without_postgresql_nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built: list[Module] = []

    def note(module: Module, _tell: Callable[[str], None]) -> None:
        built.append(module)

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgresql, "_INSTALLED", tmp_path)
    monkeypatch.setattr("tests.cluster.cluster.build", note)
    with pytest.raises(ClusterError, match="there is no PostgreSQL"):
        Cluster(tmp_path / "cluster").up()
    assert built == []


def test_the_newest_postgresql_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgresql, "_INSTALLED", tmp_path)
    for version, names in (("9.6", ("initdb", "postgres", "pg_isready")), ("15", ("initdb", "postgres", "pg_isready"))):
        for name in names:
            (path := tmp_path / version / "bin" / name).parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (tmp_path / "17/bin").mkdir(parents=True)
    (tmp_path / "17/bin/initdb").touch()
    assert postgresql.find_programs() == tmp_path / "15/bin"


def test_a_database_of_another_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bin_folder := tmp_path / "15/bin").mkdir(parents=True)
    for name in ("initdb", "postgres", "pg_isready"):
        (bin_folder / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 15.14'\n")
        (bin_folder / name).chmod(0o755)
    monkeypatch.setattr(postgresql, "_INSTALLED", tmp_path)
    monkeypatch.setenv("PATH", "")
    (data := tmp_path / "data").mkdir()
    (data / "PG_VERSION").write_text("13\n")
    with pytest.raises(ClusterError, match="was made by PostgreSQL 13, this one is 15"):
        postgresql.make_database(data, "secret", tmp_path / "log")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    (port,) = free_ports(["http"], {}).values()
    # A server that was killed leaves connections at its port behind for a minute.
    serve = "import socketserver as s; s.TCPServer.allow_reuse_address = True; "
    serve += f"s.TCPServer(('127.0.0.1', {port}), s.BaseRequestHandler).serve_forever()"
    log = tmp_path / "log"
    process = Process("sleeper", [sys.executable, "-c", serve], {}, log, {"http": port}, lambda: listens(port))
    yield process
    process.kill()


def test_a_process_is_killed_and_started_again_by_itself(sleeper: Process) -> None:
    sleeper.start()
    sleeper.await_well()
    first = sleeper.pid
    sleeper.start()
    assert sleeper.pid == first
    sleeper.kill()
    assert sleeper.pid is None
    sleeper.start()
    sleeper.await_well()
    assert sleeper.pid != first
    sleeper.stop()
    assert sleeper.popen is not None
    assert sleeper.popen.returncode == -signal.SIGTERM


def test_a_process_that_ends_at_once_is_named_with_its_last_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no database')"]
    process = Process("frontend", command, {}, tmp_path / "log", {}, lambda: False)
    process.start()
    with pytest.raises(ClusterError, match=r"(?s)frontend ended with 1: no database.*log"):
        process.await_well()


def test_others_can_read_what_runs_and_no_secret(tmp_path: Path, sleeper: Process) -> None:
    (place := Place(tmp_path)).make()
    assert read_running(place) is None
    sleeper.start()
    running = RunningCluster(os.getpid(), "127.0.0.1:7", "default", {"page": "http://127.0.0.1:8"}, ready=True)
    write_running(place, running, {"sleeper": sleeper})
    found = read_running(place)
    assert found is not None
    assert found.processes["sleeper"].pid == sleeper.pid
    assert found.processes["sleeper"].ports == sleeper.ports
    assert place.token() not in place.state.read_text()


def test_one_folder_has_one_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    assert main(["down", "--folder", str(folder)]) == 0
    assert capsys.readouterr().out == f"no cluster runs in {folder}\n"
    with held(folder) as place:
        with pytest.raises(ClusterError, match=r"runs in .* already"), held(folder):
            pass
        assert main(["up", "--folder", str(folder)]) == 2
        assert "a cluster is beginning or ending in" in capsys.readouterr().err
        write_running(place, RunningCluster(os.getpid(), "127.0.0.1:7", "default", {}, ready=True), {})
        assert main(["up", "--folder", str(folder)]) == 0
        assert "It runs already, and is left as it is." in capsys.readouterr().out


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "theirs").mkdir()
    (link := tmp_path / "link").symlink_to(tmp_path / "theirs")
    assert main(["up", "--folder", str(link)]) == 2
    assert "is a link or another account's: name another folder with --folder" in capsys.readouterr().err


@pytest.mark.thorough
def test_down_ends_the_process_that_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.cluster.cluster import held\n"
        "with held(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    write_running(Place(tmp_path), RunningCluster(holder.pid, "127.0.0.1:7", "default", {}), {})
    assert main(["down", "--folder", str(tmp_path)]) == 0
    assert holder.wait() == -signal.SIGTERM
    assert "down; what it keeps is in" in capsys.readouterr().out
    with locked(Place(tmp_path).lock) as mine:
        assert mine is not None


def test_what_is_missing_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["built"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cluster: temporal ")
    assert "is not built: `make cluster` builds it" in said
