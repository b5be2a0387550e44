"""A release of the chart, made and changed by the commands that docs/how-to/deploy.md has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from tests.chart.server import ApiServer
from tests.cluster.binaries import Module
from tests.support.deploy.charts import CHART, Manifest, render

NAME = "decks"
_EVERYWHERE = ("ServiceAccount default", "ConfigMap kube-root-ca.crt")
_OWNER = "meta.helm.sh/release-name"
_MARKS = (_OWNER, "meta.helm.sh/release-namespace", "deployment.kubernetes.io/revision")
"""Annotations that Helm and the controllers add."""
_KEPT = {"HELM_MAX_HISTORY": "0"}
"""All revisions, and not only the last ten."""
_PLACES = ("clusterIP", "clusterIPs")
"""Of a Service: each gets others."""


class HelmError(Exception):
    """What Helm says when it fails."""


@dataclass(frozen=True)
class Release:
    """One release in a namespace."""

    server: ApiServer
    helm: Module
    namespace: str
    folder: Path
    name: str = NAME

    @property
    def asks_the_server(self) -> bool:
        """Whether Helm lets the server apply what it sends, which then minds who else has changed it."""
        return not self.helm.version.startswith("3.")

    def change(self, values: dict[str, Any], *more: str) -> None:
        """Install it, or upgrade it to these values. Raises HelmError."""
        (path := self.folder / "values.yaml").write_text(yaml.safe_dump(values))
        self._helm("upgrade", "--install", self.name, str(CHART), "--values", str(path), *more)

    def roll_back(self, revision: int) -> None:
        """Go back to what it was. Raises HelmError."""
        self._helm("rollback", self.name, str(revision))

    def uninstall(self) -> None:
        """Remove it. Raises HelmError."""
        self._helm("uninstall", self.name)

    def replicas(self) -> int:
        """How many worker services there shall be."""
        return self.server.ask("GET", self._worker).body["spec"]["replicas"]

    def scale(self, replicas: int) -> None:
        """Let somebody else say how many worker services there shall be, as KEDA does."""
        said = {"metadata": {"name": f"{self.name}-llm-do-temporal-worker"}, "spec": {"replicas": replicas}}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **said}
        reply = self.server.ask("PUT", f"{self._worker}/scale", scale, fieldManager="somebody")
        assert reply.status == 200, reply.body

    @property
    def _worker(self) -> str:
        deployments = self.server.resource("apps/v1", "Deployment").path(self.namespace)
        return f"{deployments}/{self.name}-llm-do-temporal-worker"

    def objects(self) -> dict[str, Manifest]:
        """What Helm has made in its namespace, by kind and name."""
        return {name: one for name, one in self.remains().items() if _is_made(one["metadata"])}

    def remains(self) -> dict[str, Manifest]:
        """All that is in its namespace and not in every one, by kind and name; and no events."""
        found = {f"{one['kind']} {one['metadata']['name']}": one for one in self.server.objects(self.namespace)}
        return {name: one for name, one in found.items() if name not in _EVERYWHERE and one["kind"] != "Event"}

    def wanted(self, values: dict[str, Any]) -> dict[str, Manifest]:
        """What the server would make of these values in an empty namespace, by kind and name."""
        manifests = render(values, self.name)
        replies = [self.server.try_out(one, "default") for one in manifests]
        return {f"{one.body['kind']} {one.body['metadata']['name']}": one.body for one in replies}

    def _helm(self, *arguments: str) -> str:
        (config := self.folder / "kubeconfig").write_text(self.server.kubeconfig)
        config.chmod(0o600)
        command = [str(self.helm.home / "helm"), *arguments, "--namespace", self.namespace]
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(config), **_KEPT}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "warning" in done.stderr.lower():
            raise HelmError(done.stderr.strip())
        return done.stdout


def settled(found: Manifest) -> Manifest:
    """An object without what is different in each: times, numbers, places, and who wrote what."""
    said = found["metadata"]
    marks = {name: value for name, value in said.get("annotations", {}).items() if name not in _MARKS}
    kept: Manifest = {name: value for name, value in found.items() if name not in ("metadata", "status")}
    if "spec" in kept:
        kept["spec"] = {name: value for name, value in kept["spec"].items() if name not in _PLACES}
    return kept | {"metadata": {"name": said["name"], "labels": said.get("labels"), "annotations": marks}}


def lost(sent: Any, kept: Any, where: str = "") -> Iterator[str]:
    """What was sent and is not in what the server would keep."""
    before, after = dict(_parts(sent)), dict(_parts(kept))
    if before and before.keys() <= after.keys():
        for name, value in before.items():
            yield from lost(value, after[name], f"{where}.{name}")
    # It leaves out what is empty.
    elif sent != kept and sent not in ({}, [], ""):
        yield f"{where}: {sent!r} became {kept!r}"


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two objects are not the same; what is empty is as good as absent."""
    ones, others = dict(_parts(one)), dict(_parts(other))
    if type(one) is not type(other) or not (ones or others):
        if (one or None) != (other or None):
            yield f"{where}: {one!r}, and not {other!r}"
        return
    for name in ones | others:
        yield from differences(ones.get(name), others.get(name), f"{where}.{name}")


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        yield from enumerate(cast("list[Any]", value))


def _is_made(said: Manifest) -> bool:
    # What Kubernetes derives from it has copies of its annotations, and its name as that of the owner.
    return _OWNER in said.get("annotations", {}) and "ownerReferences" not in said
