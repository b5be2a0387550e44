"""`make chart-test`: the chart on Kubernetes' own API server.

Named so that no other command collects it: it needs programs that are built first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.chart.programs import DEFINITIONS, HELMS, KEDA
from tests.chart.release import HelmError, Release, settled
from tests.chart.server import ApiServer
from tests.cluster.binaries import Module
from tests.support.deploy.charts import KUBERNETES, Manifest, container, pod, render
from tests.support.deploy.releases import CODEC, SCALED, STORED, TIMED, VARIANTS, Variant, values
from tests.support.patience import eventually

LEVEL = "pod-security.kubernetes.io"
Namespaces = Callable[[str], str]
ISOLATED = values(STORED, CODEC, TIMED, {"worker": {"isolation": True}})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path_factory.mktemp("kubernetes"), print)
    try:
        server.up()
        define_scalers(server)
        yield server
    finally:
        server.down()


def define_scalers(server: ApiServer) -> None:
    """Make the kinds of KEDA known, as KEDA's own module defines them."""
    path = server.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition").path("")
    definitions = [
        yaml.safe_load(one.read_text("utf-8")) for one in sorted((KEDA.home / DEFINITIONS).glob("keda.sh_*"))
    ]
    for one in definitions:
        reply = server.ask("POST", path, one)
        assert reply.status == 201, reply.body
    for one in definitions:
        resource = f"/apis/keda.sh/v1alpha1/{one['spec']['names']['plural']}"
        eventually(lambda at=resource: server.ask("GET", at).status == 200, f"{resource} is there")


@pytest.fixture
def make_namespace(server: ApiServer) -> Namespaces:
    """Make a namespace for pods of a level of Pod Security, and return its name."""

    def make(level: str) -> str:
        name = f"team-{next(_NUMBERS)}"
        labels = {f"{LEVEL}/{does}": level for does in ("enforce", "warn")}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        assert server.ask("POST", "/api/v1/namespaces", namespace).status == 201
        return name

    return make


_NUMBERS = count(1)


@pytest.fixture(params=HELMS, ids=lambda helm: f"Helm {helm.version}")
def release(request: pytest.FixtureRequest, server: ApiServer, make_namespace: Namespaces, tmp_path: Path) -> Release:
    helm: Module = request.param
    return Release(server, helm, make_namespace("restricted"), tmp_path)


def test_it_is_the_newest_that_the_chart_is_checked_against(server: ApiServer) -> None:
    said = server.ask("GET", "/version").body
    assert f"{said['major']}.{said['minor']}" == KUBERNETES[-1]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_it_takes_all_of_it_in_a_restricted_namespace(
    server: ApiServer, make_namespace: Namespaces, variant: Variant
) -> None:
    namespace = make_namespace("restricted")
    for manifest in render(variant.values):
        reply = server.try_out(manifest, namespace)
        assert (reply.status, reply.warnings) == (201, ()), reply.body
        assert list(lost(manifest, reply.body)) == []


def lost(sent: Any, kept: Any, where: str = "") -> Iterator[str]:
    """What was sent and is not in what the server would keep."""
    before, after = dict(_parts(sent)), dict(_parts(kept))
    if before and before.keys() <= after.keys():
        for name, value in before.items():
            yield from lost(value, after[name], f"{where}.{name}")
    # It leaves out what is empty.
    elif sent != kept and sent not in ({}, [], ""):
        yield f"{where}: {sent!r} became {kept!r}"


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        yield from enumerate(cast("list[Any]", value))


Change = Callable[[dict[str, Manifest]], object]
WRONG: dict[str, Change] = {
    "unknown field": lambda found: container(found["Deployment"]).update(imagePullPolcy="Always"),
    "must be greater than or equal to 0": lambda found: found["Deployment"]["spec"].update(replicas=-1),
    "`selector` does not match": lambda found: found["Deployment"]["spec"]["selector"]["matchLabels"].update(a="b"),
    "volumes[0].name": lambda found: pod(found["Deployment"])["volumes"].insert(0, {"name": "a_b", "emptyDir": {}}),
    'unknown field "spec.maxReplicas"': lambda found: found["ScaledObject"]["spec"].update(maxReplicas=1),
    "spec.triggers: Required value": lambda found: found["ScaledObject"]["spec"].pop("triggers"),
}


@pytest.mark.parametrize(("said", "change"), WRONG.items(), ids=WRONG)
def test_it_refuses_what_is_wrong(server: ApiServer, said: str, change: Change) -> None:
    found = {one["kind"]: one for one in render(values(SCALED))}
    good = deepcopy(found)
    change(found)
    (changed,) = [kind for kind, one in found.items() if one != good[kind]]
    reply = server.try_out(found[changed], "default")
    assert reply.status in (400, 422)
    assert said in reply.body["message"]


@pytest.mark.parametrize(("level", "is_enough"), [("restricted", False), ("baseline", False), ("privileged", True)])
def test_isolated_commands_want_a_privileged_namespace(
    server: ApiServer, make_namespace: Namespaces, level: str, is_enough: bool
) -> None:
    namespace = make_namespace(level)
    manifests = render(ISOLATED)
    replies = [server.try_out(one, namespace) for one in manifests]
    assert {reply.status for reply in replies} == {201}
    warned = [one for one, reply in zip(manifests, replies, strict=True) if reply.warnings]
    if is_enough:
        assert warned == []
    else:
        (worker,) = warned
        assert pod(worker)["hostUsers"] is False


def test_a_release_becomes_any_other_and_goes_back(release: Release) -> None:
    revisions: dict[int, Variant] = {}
    for variant in VARIANTS.values():
        release.change(variant.values)
        revisions[release.revision()] = variant
        assert is_like_new(release, variant.values)
    for revision, variant in reversed(revisions.items()):
        release.roll_back(revision)
        assert is_like_new(release, variant.values)
    release.uninstall()
    assert release.objects() == {}


def is_like_new(release: Release, given: dict[str, Any]) -> bool:
    """Hold that nothing is missing, and nothing left of what the release was before."""
    found, wanted = (
        {name: settled(one) for name, one in objects.items()} for objects in (release.objects(), release.wanted(given))
    )
    assert found == wanted
    return True


def test_what_somebody_else_has_scaled_is_taken_back_by_force(release: Release) -> None:
    release.change(values())
    release.scale("decks-llm-do-temporal-worker", 7)
    if release.asks_the_server:
        with pytest.raises(HelmError, match=r"conflict with .*\.spec\.replicas"):
            release.change(values())
        release.change(values(), "--force-conflicts")
    else:
        release.change(values())
    assert is_like_new(release, values())
