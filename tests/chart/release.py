"""A release of the chart, made and changed by the commands that docs/how-to/deploy.md has."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.chart.server import ApiServer
from tests.cluster.binaries import Module
from tests.support.deploy.charts import CHART, Manifest, render

NAME = "decks"
_HELMS_OWN = "owner"
"""Label of the secrets in which Helm keeps what it has done."""
_MARKS = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "deployment.kubernetes.io/revision")
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

    def revision(self) -> int:
        """Number of what it is now."""
        (said,) = yaml.safe_load(self._helm("history", self.name, "--max", "1", "--output", "json"))
        return said["revision"]

    def scale(self, deployment: str, replicas: int) -> None:
        """Let somebody else say how many pods there are."""
        path = self.server.resource("apps/v1", "Deployment").path(self.namespace)
        said = {"metadata": {"name": deployment, "namespace": self.namespace}, "spec": {"replicas": replicas}}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **said}
        reply = self.server.ask("PUT", f"{path}/{deployment}/scale", scale, fieldManager="somebody")
        assert reply.status == 200, reply.body

    def objects(self) -> dict[str, Manifest]:
        """What is in its namespace because of it, by kind and name."""
        found = [one for one in self.server.objects(self.namespace) if _is_of(one, self.name)]
        return {f"{one['kind']} {one['metadata']['name']}": one for one in found}

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


def _is_of(found: Manifest, name: str) -> bool:
    labels = found["metadata"].get("labels", {})
    return labels.get("app.kubernetes.io/instance") == name and _HELMS_OWN not in labels
