"""What the checks of the chart start from: one API server for all, and a namespace for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from tests.chart.machines import add_machines
from tests.chart.programs import DEFINITIONS, HELMS, KEDA
from tests.chart.release import Release
from tests.chart.server import ApiServer, Namespaces
from tests.cluster.binaries import Module
from tests.support.patience import eventually

_LEVEL = "pod-security.kubernetes.io"
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path_factory.mktemp("kubernetes"))
    try:
        server.up()
        define_scalers(server)
        add_machines(server)
        yield server
    finally:
        server.down()


def define_scalers(server: ApiServer) -> None:
    """Make the kinds of KEDA known, as KEDA's own module defines them."""
    definitions = [
        yaml.safe_load(one.read_text("utf-8")) for one in sorted((KEDA.home / DEFINITIONS).glob("keda.sh_*"))
    ]
    for one in definitions:
        server.make(one)
    for one in definitions:
        path = f"/apis/keda.sh/v1alpha1/{one['spec']['names']['plural']}"
        eventually(lambda at=path: server.ask("GET", at).status == 200, f"{path} is there")


@pytest.fixture
def make_namespace(server: ApiServer) -> Namespaces:
    """Make a namespace for pods of a level of Pod Security, and return its name."""

    def make(level: str) -> str:
        name = f"team-{next(_NUMBERS)}"
        labels = {f"{_LEVEL}/{does}": level for does in ("enforce", "warn")}
        server.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(lambda: server.ask("GET", account).status == 200, f"{name} has what all namespaces have")
        return name

    return make


@pytest.fixture(params=HELMS, ids=lambda helm: f"Helm {helm.version}")
def release(request: pytest.FixtureRequest, server: ApiServer, make_namespace: Namespaces, tmp_path: Path) -> Release:
    """A release by each Helm."""
    helm: Module = request.param
    return Release(server, helm, make_namespace("restricted"), tmp_path)


@pytest.fixture
def newest(server: ApiServer, make_namespace: Namespaces, tmp_path: Path) -> Release:
    """A release by the newest Helm."""
    return Release(server, HELMS[-1], make_namespace("restricted"), tmp_path)
