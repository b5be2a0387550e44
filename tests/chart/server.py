"""The API server with etcd behind it, on 127.0.0.1, in a folder of its own; and the requests that tests send to it."""

from __future__ import annotations

import json
import os
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.chart.programs import ETCD, KUBERNETES
from tests.cluster.processes import Process, answers, free_ports
from tests.support.deploy.charts import Manifest

Namespaces = Callable[[str], str]
"""Makes a namespace for a level of Pod Security, and returns its name."""
_STOP_SECONDS = 10
_KEY_BITS = 2048
# All that this chart is for, and none of those that ask after the health of machines.
_CONTROLLERS = (
    *("deployment", "replicaset", "job", "cronjob", "disruption", "endpointslice", "garbage-collector", "namespace"),
    *("serviceaccount", "root-ca-certificate-publisher", "persistentvolume-binder"),
)


@dataclass(frozen=True)
class Reply:
    """What the server says to a request."""

    status: int
    body: dict[str, Any]
    warnings: tuple[str, ...]
    """Of versions that will go, and of pods that a namespace would not let in."""


@dataclass(frozen=True)
class Resource:
    """Where objects of a kind are."""

    version: str
    """Of the API, like `apps/v1`."""
    name: str
    kind: str
    verbs: tuple[str, ...]
    is_namespaced: bool

    def path(self, namespace: str) -> str:
        """All of them in a namespace, where it has them."""
        within = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"{_api(self.version)}{within}/{self.name}"


class ApiServer:
    """A Kubernetes without machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, list[Resource]] = {}
        self._token = secrets.token_urlsafe(24)
        self._ports = free_ports(("etcd", "peers", "api", "controllers", "scheduler"), {})
        self._processes = [self._etcd(), self._server(), self._controllers(), self._scheduler()]

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://127.0.0.1:{self._ports['api']}"

    @property
    def kubeconfig(self) -> str:
        """Text of a file with which clients reach it as somebody who may do everything."""
        cluster = {"server": self.url, "certificate-authority": str(self._authority)}
        context = {"cluster": "here", "user": "here"}
        named = {
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "here", "user": {"token": self._token}}],
            "contexts": [{"name": "here", "context": context}],
        }
        return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here", **named})

    def up(self) -> None:
        """Start it, empty. Raises ClusterError."""
        _write_key(self._folder / "accounts.key")
        (tokens := self._folder / "tokens.csv").touch(mode=0o600)
        tokens.write_text(f"{self._token},tester,1,system:masters\n")
        self._config.touch(mode=0o600)
        self._config.write_text(self.kubeconfig)
        for one in self._processes:
            one.start()
            one.await_well()

    def down(self) -> None:
        """Stop it. What it kept stays in its folder."""
        for one in reversed(self._processes):
            one.stop(_STOP_SECONDS)

    def ask(self, method: str, path: str, body: Manifest | None = None, **parameters: str) -> Reply:
        """Send a request, and return the reply whatever it is."""
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        reply = self._client.request(method, path, json=body, params=parameters, headers=kind)
        # `299 - "text"`, each in a header of its own.
        warnings = (one.split('"', 1)[-1].rstrip('"') for one in reply.headers.get_list("warning"))
        is_json = reply.headers.get("content-type", "").startswith("application/json")
        return Reply(reply.status_code, reply.json() if is_json else {"message": reply.text}, tuple(warnings))

    def try_out(self, manifest: Manifest, namespace: str) -> Reply:
        """Ask whether it would take a new object: all checks, unknown fields among them, and nothing is kept."""
        path = self.resource(manifest["apiVersion"], manifest["kind"]).path(namespace)
        return self.ask("POST", path, manifest, dryRun="All", fieldValidation="Strict")

    def make(self, manifest: Manifest, namespace: str = "") -> None:
        """Make an object."""
        path = self.resource(manifest["apiVersion"], manifest["kind"]).path(namespace)
        reply = self.ask("POST", path, manifest)
        assert reply.status == 201, reply.body

    def merge(self, path: str, change: Manifest) -> None:
        """Change some fields of an object."""
        reply = self.ask("PATCH", path, change)
        assert reply.status == 200, reply.body

    def resource(self, version: str, kind: str) -> Resource:
        """Where it has objects of this kind. Raises LookupError where it knows none."""
        for one in self.resources(version):
            if one.kind == kind:
                return one
        raise LookupError(f"the API server knows no {kind} of {version}")

    def resources(self, version: str) -> list[Resource]:
        """All kinds of a version of the API. Raises LookupError where there is no such version."""
        if version not in self._known:
            self._known[version] = self._listed(version)
        return self._known[version]

    def _listed(self, version: str) -> list[Resource]:
        reply = self.ask("GET", _api(version))
        if reply.status != 200:
            raise LookupError(f"the API server knows no version {version} of an API")
        return [
            Resource(version, one["name"], one["kind"], tuple(one["verbs"]), one["namespaced"])
            for one in reply.body["resources"]
            # Others are parts of objects, like `deployments/scale`.
            if "/" not in one["name"]
        ]

    def objects(self, namespace: str) -> list[Manifest]:
        """All objects of all kinds in a namespace."""
        found: list[Manifest] = []
        for one in self._kinds:
            said = self.ask("GET", one.path(namespace)).body["items"]
            found += [{**each, "apiVersion": one.version, "kind": one.kind} for each in said]
        return found

    @cached_property
    def _kinds(self) -> list[Resource]:
        """What a namespace can have."""
        groups = self.ask("GET", "/apis").body["groups"]
        versions = ["v1", *(one["preferredVersion"]["groupVersion"] for one in groups)]
        known = [one for version in versions for one in self.resources(version)]
        return [one for one in known if one.is_namespaced and "list" in one.verbs]

    @cached_property
    def _client(self) -> httpx2.Client:
        trusted = ssl.create_default_context(cafile=str(self._authority))
        allowed = {"Authorization": f"Bearer {self._token}"}
        return httpx2.Client(base_url=self.url, verify=trusted, headers=allowed, timeout=30, trust_env=False)

    @property
    def _authority(self) -> Path:
        return self._folder / "certificates-api/apiserver.crt"

    @property
    def _config(self) -> Path:
        return self._folder / "kubeconfig"

    def _etcd(self) -> Process:
        clients, peers = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peers"))
        said = {
            "data-dir": str(self._folder / "etcd"),
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            # Nobody needs it after a crash.
            "unsafe-no-fsync": "true",
        }
        return self._process("etcd", ETCD.home / "etcd", said, lambda: answers(f"{clients}/readyz"))

    def _server(self) -> Process:
        key = str(self._folder / "accounts.key")
        said = {
            "etcd-servers": f"http://127.0.0.1:{self._ports['etcd']}",
            **self._door("api"),
            "token-auth-file": str(self._folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.96.0.0/16",
            # There are no machines that would have to find it, and its address is none that they could.
            "endpoint-reconciler-type": "none",
        }
        return self._process("kube-apiserver", KUBERNETES.home / "kube-apiserver", said, self._is_ready)

    def _controllers(self) -> Process:
        said = {
            "kubeconfig": str(self._config),
            "leader-elect": "false",
            "controllers": ",".join(f"{one}-controller" for one in _CONTROLLERS),
            "service-account-private-key-file": str(self._folder / "accounts.key"),
            "root-ca-file": str(self._authority),
            **self._door("controllers"),
        }
        name = "kube-controller-manager"
        return self._process(name, KUBERNETES.home / name, said, lambda: self._is_well("controllers"))

    def _scheduler(self) -> Process:
        said = {"kubeconfig": str(self._config), "leader-elect": "false", **self._door("scheduler")}
        return self._process(
            "kube-scheduler", KUBERNETES.home / "kube-scheduler", said, lambda: self._is_well("scheduler")
        )

    def _door(self, name: str) -> dict[str, str]:
        certificates = str(self._folder / f"certificates-{name}")
        return {"bind-address": "127.0.0.1", "secure-port": str(self._ports[name]), "cert-dir": certificates}

    def _is_well(self, name: str) -> bool:
        """Whether a process says so that has a certificate of its own making, and is asked nothing else."""
        try:
            url = f"https://127.0.0.1:{self._ports[name]}/healthz"
            return httpx2.get(url, verify=False, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def _process(self, name: str, program: Path, said: dict[str, str], is_well: Callable[[], bool]) -> Process:
        command = [str(program), *(f"--{option}={value}" for option, value in said.items())]
        variables = {"PATH": os.environ["PATH"]}
        return Process(name, command, variables, self._folder / f"{name}.log", self._ports, is_well)

    def _is_ready(self) -> bool:
        if not self._authority.exists():
            return False
        try:
            return self._client.get("/readyz").status_code == 200
        except (httpx2.TransportError, ssl.SSLError):
            return False


def _api(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _write_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
