"""Part of `make chart-test`: pods of the chart as Kubernetes makes, places, replaces and removes them.

Nobody runs them: the checks say when one is ready, and when one has ended.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.machines import end, is_going, is_placed, make_ready, pods
from tests.chart.release import Release
from tests.chart.server import ApiServer, Namespaces
from tests.support.deploy.charts import Manifest, render
from tests.support.deploy.releases import CODEC, OPEN, STORED, TIMED, values
from tests.support.patience import eventually

NAME = "decks-llm-do-temporal"
GROUPS = ["system:serviceaccounts", "system:authenticated"]
VOLUME = {"claim": "decks", "oneMachine": True}


def placed(release: Release, part: str, count: int) -> list[Manifest]:
    """Wait until so many pods of a part are on machines, and none else is there."""

    def found() -> list[Manifest]:
        there = pods(release.server, release.namespace, part)
        return there if len(there) == count and all(map(is_placed, there)) else []

    return eventually(found, f"{count} pods of the {part} are on machines")


def ready(release: Release, part: str, count: int) -> list[Manifest]:
    """Let so many pods of a part get ready."""
    make_ready(release.server, placed(release, part, count))
    path = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{NAME}-{part}"
    eventually(
        lambda: release.server.ask("GET", path).body["status"].get("availableReplicas") == count,
        f"the {part} is available",
    )
    return pods(release.server, release.namespace, part)


def names(found: list[Manifest]) -> set[str]:
    return {one["metadata"]["name"] for one in found}


def machines(found: list[Manifest]) -> set[str]:
    return {one["spec"]["nodeName"] for one in found}


def test_pods_are_made_and_the_services_find_them(newest: Release) -> None:
    newest.change(values(OPEN, STORED, CODEC))
    assert len(ready(newest, "worker", 2)) == 2
    for part, port in (("page", 8234), ("codec-server", 8235)):
        (one,) = ready(newest, part, 1)

        addresses = (one["status"]["podIP"], port)
        eventually(lambda name=part: found_by(newest, name), f"the Service of the {part} finds a pod")
        assert found_by(newest, part) == [addresses]


def found_by(release: Release, part: str) -> list[tuple[str, int]]:
    """Addresses and ports of the ready pods that the Service of a part finds."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{release.namespace}/endpointslices"
    slices = release.server.ask("GET", path, labelSelector=f"kubernetes.io/service-name={NAME}-{part}").body["items"]
    return [
        (address, port["port"])
        for one in slices
        for pod in one["endpoints"] or ()
        if pod["conditions"]["ready"]
        for address in pod["addresses"]
        for port in one["ports"]
    ]


def test_an_upgrade_ends_no_worker_service_before_another_is_ready(newest: Release) -> None:
    newest.change(values())
    before = names(ready(newest, "worker", 2))
    newest.change(values({"image": {"tag": "next"}}))
    (new,) = [one for one in placed(newest, "worker", 3) if one["metadata"]["name"] not in before]
    # All of the old ones go on until it is ready, and then one of them goes.
    assert not any(map(is_going, pods(newest.server, newest.namespace, "worker")))
    make_ready(newest.server, [new])
    eventually(lambda: len(going(newest)) == 1, "one of the old ones is told to end")
    assert names(going(newest)) < before


def going(release: Release) -> list[Manifest]:
    return [one for one in pods(release.server, release.namespace, "worker") if is_going(one)]


def test_for_a_volume_of_one_machine_the_old_ones_end_before_new_ones_begin(newest: Release) -> None:
    given = {"replicas": 1, "strategy": "Recreate"}
    newest.change(values({"worker": given}))
    (old,) = ready(newest, "worker", 1)
    newest.change(values({"worker": given, "image": {"tag": "next"}}))
    eventually(lambda: names(going(newest)) == names([old]), "the old one is told to end")
    assert names(pods(newest.server, newest.namespace, "worker")) == names([old])
    end(newest.server, newest.namespace)
    (new,) = placed(newest, "worker", 1)
    assert new["spec"]["containers"][0]["image"].endswith(":next")


def test_a_volume_of_one_machine_has_all_pods_of_a_release_there(newest: Release) -> None:
    add_volume(newest)
    newest.change(values(OPEN, STORED, CODEC, TIMED, {"workshop": VOLUME}))
    found = [*placed(newest, "worker", 2), *placed(newest, "page", 1), *placed(newest, "codec-server", 1)]
    run_timer(newest)
    (timer,) = placed(newest, "gc", 1)
    assert len(machines([*found, timer])) == 1


def add_volume(release: Release) -> None:
    """Add the claim of a workshop, and a volume for it that any one machine can mount."""
    said: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = {"name": "decks", "namespace": release.namespace}
    disk = {"capacity": {"storage": "1Gi"}, "claimRef": claim, "csi": {"driver": "disks", "volumeHandle": "1"}}
    name = f"disk-{release.namespace}"
    release.server.make(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": said | disk}
    )
    wanted = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    release.server.make(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": said | wanted},
        release.namespace,
    )


def run_timer(release: Release) -> None:
    """Run it now, as `kubectl create job --from` does."""
    path = f"/apis/batch/v1/namespaces/{release.namespace}/cronjobs/{NAME}-gc"
    template = release.server.ask("GET", path).body["spec"]["jobTemplate"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "now"}, "spec": template["spec"]}
    release.server.make(job, release.namespace)


def test_the_timer_makes_a_job_that_ends(newest: Release) -> None:
    newest.change(values(STORED, TIMED))
    run_timer(newest)
    make_ready(newest.server, placed(newest, "gc", 1))
    path = f"/apis/batch/v1/namespaces/{newest.namespace}/jobs/now"
    eventually(lambda: newest.server.ask("GET", path).body["status"].get("succeeded") == 1, "the job has ended well")


def test_one_worker_service_at_a_time_is_taken_from_its_machine(newest: Release) -> None:
    newest.change(values())
    first, second = ready(newest, "worker", 2)
    eventually(lambda: allowed(newest) == 1, "one may go")
    assert evict(newest, first) == 201
    assert evict(newest, second) == 429
    assert names(going(newest)) == names([first])


def allowed(release: Release) -> int:
    path = f"/apis/policy/v1/namespaces/{release.namespace}/poddisruptionbudgets/{NAME}-worker"
    return release.server.ask("GET", path).body["status"].get("disruptionsAllowed", 0)


def evict(release: Release, pod: Manifest) -> int:
    """Take a pod from its machine, as `kubectl drain` does; 429: not now."""
    name = pod["metadata"]["name"]
    said = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": release.namespace}}
    return release.server.ask("POST", f"/api/v1/namespaces/{release.namespace}/pods/{name}/eviction", said).status


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_namespace_that_is_not_privileged_lets_no_isolated_one_in(
    server: ApiServer, make_namespace: Namespaces, level: str
) -> None:
    namespace = make_namespace(level)
    for one in render(values({"worker": {"isolation": True}})):
        server.make(one, namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}-worker"

    def refusal() -> str:
        said = server.ask("GET", path).body["status"].get("conditions", [])
        return next((one["message"] for one in said if one["type"] == "ReplicaFailure"), "")

    said = eventually(refusal, "its pods are refused")
    assert f'violates PodSecurity "{level}:latest"' in said
    assert all(name in said for name in ("seccompProfile", "AppArmor")), said
    assert pods(server, namespace, "worker") == []


def test_a_privileged_namespace_lets_isolated_ones_in(server: ApiServer, make_namespace: Namespaces) -> None:
    namespace = make_namespace("privileged")
    for one in render(values({"worker": {"isolation": True}})):
        server.make(one, namespace)
    eventually(lambda: len(pods(server, namespace, "worker")) == 2, "its pods are made")


def test_its_account_may_do_nothing(newest: Release) -> None:
    newest.change(values())
    account = f"system:serviceaccount:{newest.namespace}:{NAME}"
    review: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    for verb, resource in (("get", "secrets"), ("list", "pods"), ("create", "pods"), ("get", "configmaps")):
        asked = {
            "user": account,
            "resourceAttributes": {"namespace": newest.namespace, "verb": verb, "resource": resource},
        }
        said = newest.server.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review | {"spec": asked})
        assert said.body["status"]["allowed"] is False
    for part, count in (("worker", 2), ("page", 1)):
        # Nor has any pod its token.
        assert not any(
            "projected" in volume for one in placed(newest, part, count) for volume in one["spec"]["volumes"]
        )
