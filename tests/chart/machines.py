"""Machines in name only: Kubernetes puts pods on them, and tests say when these are ready, or have ended."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chart.server import ApiServer
from tests.support.deploy.charts import Manifest

NAMES = ("one", "two", "three")
_CAPACITY = {"cpu": "1000", "memory": "4Ti", "pods": "1000", "ephemeral-storage": "4Ti"}
"""Room for what all checks leave behind."""


def add_machines(server: ApiServer) -> None:
    """Add all of them."""
    for name in NAMES:
        labels = {"kubernetes.io/hostname": name}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        server.make(node)
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [ready]}
        server.merge(f"/api/v1/nodes/{name}/status", {"status": status})
        # A new machine is taken for one that is not ready, until somebody looks; nobody does here.
        server.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def pods(server: ApiServer, namespace: str, part: str | None = None) -> list[Manifest]:
    """Pods of a part of the chart, oldest first; None: of all parts."""
    found = server.ask("GET", f"/api/v1/namespaces/{namespace}/pods").body["items"]
    mine = [one for one in found if part in (None, one["metadata"]["labels"]["app.kubernetes.io/component"])]
    return sorted(mine, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))


def is_placed(pod: Manifest) -> bool:
    """Whether a machine has it."""
    return "nodeName" in pod["spec"]


def is_ready(pod: Manifest) -> bool:
    """Whether its containers are ready, as far as Kubernetes was told."""
    said = pod["status"].get("conditions", [])
    return any((one["type"], one["status"]) == ("Ready", "True") for one in said)


def is_going(pod: Manifest) -> bool:
    """Whether it was told to end."""
    return "deletionTimestamp" in pod["metadata"]


def make_ready(server: ApiServer, found: Sequence[Manifest]) -> None:
    """Say that these pods are ready. A pod of a Job has ended well."""
    for number, one in enumerate(found):
        if not is_placed(one) or is_ready(one) or is_going(one):
            continue
        ended = one["spec"]["restartPolicy"] == "Never"
        ready = {"type": "Ready", "status": "False" if ended else "True"}
        address = {"podIP": f"10.1.{number}.1", "podIPs": [{"ip": f"10.1.{number}.1"}]}
        status = {"phase": "Succeeded" if ended else "Running", "conditions": [ready], **address}
        server.merge(f"{_path(one)}/status", {"status": status})


def end(server: ApiServer, namespace: str) -> list[Manifest]:
    """Say of pods that were told to end that they have, and return those."""
    found = [one for one in pods(server, namespace) if is_going(one)]
    for one in found:
        server.ask("DELETE", _path(one), gracePeriodSeconds="0")
    return found


def _path(pod: Manifest) -> str:
    said = pod["metadata"]
    return f"/api/v1/namespaces/{said['namespace']}/pods/{said['name']}"
