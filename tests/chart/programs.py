"""Programs of the API server in fixed versions, and the definitions of KEDA's objects from KEDA's own module."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.binaries import Module

_VERSION = "k8s.io/component-base/version"
KUBERNETES = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    "1.36.3",
    tuple((f"cmd/kube-{name}", f"kube-{name}") for name in ("apiserver", "controller-manager", "scheduler")),
    staged="0.36.3",
    # A plain build calls itself v0.0.0, and Helm asks.
    linked=(f"{_VERSION}.gitVersion=v1.36.3", f"{_VERSION}.gitMajor=1", f"{_VERSION}.gitMinor=36"),
)
ETCD = Module("etcd", "go.etcd.io/etcd/server/v3", "3.6.8", ((".", "etcd"),), staged="3.6.8")
"""The version that Kubernetes names in build/dependencies.yaml."""
DEFINITIONS = Path("config/crd/bases")
SCALER = Path("pkg/scalers/temporal_scaler.go")
KEDA = Module("keda", "github.com/kedacore/keda/v2", "2.21.0", (), (DEFINITIONS, SCALER))
"""Nothing of it is built: its definitions are given to the API server, and its scaler is read."""
HELMS = tuple(
    Module("helm", f"helm.sh/helm/v{version[0]}", version, (("cmd/helm", "helm"),)) for version in ("3.22.0", "4.2.3")
)
"""Both that are in use: the third merges what it changes, the fourth leaves that to the server."""
MODULES = (KUBERNETES, ETCD, KEDA, *HELMS)
