"""`make chart-test`: the chart on Kubernetes' own API server.

Named so that no other command collects it: it needs programs that `python -m tests.chart build` builds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.chart.machines import end
from tests.chart.programs import KEDA, SCALER
from tests.chart.release import HelmError, Release, differences, lost, settled
from tests.chart.server import ApiServer, Namespaces
from tests.support.deploy.charts import KUBERNETES, TRIGGER, TRIGGER_SECRETS, Manifest, container, pod, render
from tests.support.deploy.releases import CODEC, SCALED, STORED, TIMED, VARIANTS, VERSION, Variant, values
from tests.support.patience import eventually

ISOLATED = values(STORED, CODEC, TIMED, {"worker": {"isolation": True}})


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


def test_kedas_scaler_reads_what_it_is_told() -> None:
    source = (KEDA.home / SCALER).read_text("utf-8")
    said = re.findall(r'`keda:"name=(\w+), +order=(triggerMetadata|authParams)\b([^`]*)"`', source)
    known = {
        order: {name for name, its, more in said if its == order and "deprecated" not in more} for _, order, _ in said
    }
    assert known == {"triggerMetadata": TRIGGER, "authParams": TRIGGER_SECRETS}


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
    revisions = dict(enumerate(VARIANTS.values(), start=1))
    for variant in revisions.values():
        release.change(variant.values)
        assert odd(release, variant.values) == []
    for revision, variant in reversed(revisions.items()):
        release.roll_back(revision)
        assert odd(release, variant.values) == []
    release.uninstall()
    eventually(lambda: not end(release.server, release.namespace) and not release.remains(), "nothing is left of it")


def odd(release: Release, given: dict[str, Any]) -> list[str]:
    """What a release that was made with these values alone would not have, or have otherwise."""
    found, wanted = (
        {name: settled(one) for name, one in objects.items()} for objects in (release.objects(), release.wanted(given))
    )
    return list(differences(found, wanted))


def test_an_upgrade_keeps_what_a_scaler_has_done(release: Release) -> None:
    for given in (values(), values(SCALED)):
        release.change(given)
    # The scaler begins with one, the default of Kubernetes, however many there were.
    assert release.replicas() == 1
    release.scale(7)
    release.change(values(SCALED, VERSION))
    assert release.replicas() == 7
    release.change(values())
    assert odd(release, values()) == []


def test_what_somebody_has_scaled_by_hand_is_taken_back_by_force(release: Release) -> None:
    release.change(values())
    release.scale(7)
    if release.asks_the_server:
        with pytest.raises(HelmError, match=r"conflict with .*\.spec\.replicas"):
            release.change(values())
        release.change(values(), "--force-conflicts")
    else:
        release.change(values())
    assert odd(release, values()) == []
