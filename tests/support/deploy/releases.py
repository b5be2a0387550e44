"""Values of the chart: groups that belong together, and releases made of them, one for each part of the chart."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

Values = dict[str, Any]
LEAST: Values = {
    "temporal": {"address": "temporal-frontend.temporal:7233"},
    "page": {"hosts": ["approvals.example.com"], "tokens": {"secretName": "page"}},
}


def values(*changes: Values) -> Values:
    """The least that the chart needs, with changes."""
    found = deepcopy(LEAST)
    for change in changes:
        _merge(found, change)
    return found


def _merge(into: Values, change: Values) -> None:
    for name, value in change.items():
        if isinstance(value, dict):
            _merge(into.setdefault(name, {}), cast("Values", value))
        else:
            into[name] = value


TLS = {"temporal": {"tls": {"secretName": "temporal-tls", "serverName": "temporal"}}}
API_KEY = {"temporal": {"apiKey": {"secretName": "cloud"}}}
VERSION = {"worker": {"versioning": {"deploymentName": "pitch-decks", "buildId": "2026-11-21"}}}
SCALED = {"worker": {"scaling": {"enabled": True, "taskQueues": ["llm-do", "llm-do.files"]}}}
STORED = {
    "encryption": {"secretName": "keys"},
    "blobs": {"url": "s3://bucket/decks", "endpoint": "http://blobs:7070", "secretName": "s3"},
    "models": {"secretName": "models"},
}
COPIED = {"workshop": {"init": [{"name": "fill", "image": "decks:3", "command": ["cp", "-a", "/w/.", "/workshop"]}]}}
PLACED: Values = {
    part: {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"podAffinity": {}},
    }
    for part in ("worker", "page")
}
OPEN = {
    "page": {
        "url": "https://approvals.example.com",
        "temporalUi": "https://temporal.example.com",
        "ingress": {"enabled": True, "tlsSecretName": "cert"},
    }
}
CODEC: Values = {
    "codecServer": {
        "enabled": True,
        "hosts": ["codec.example.com"],
        "uiOrigins": ["https://temporal.example.com"],
        "tokens": {"secretName": "codec"},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecretName": "cert"},
    }
}
TIMED: Values = {"gc": {"enabled": True, "schedule": "30 2 * * 0"}}
NAMED: Values = {
    "imagePullSecrets": [{"name": "r"}],
    "serviceAccount": {"annotations": {"a": "b"}},
    "podLabels": {"azure.workload.identity/use": "true"},
}


@dataclass(frozen=True)
class Variant:
    """Values that belong together."""

    changes: tuple[Values, ...]
    made: tuple[str, ...]
    """Kinds of what the chart makes of them, beside `ALWAYS`."""

    @property
    def values(self) -> Values:
        return values(*self.changes)


ALWAYS = ("Deployment", "PodDisruptionBudget", "ServiceAccount")
VARIANTS: dict[str, Variant] = {
    "least": Variant((), ("Deployment", "Service")),
    "no page": Variant(({"page": {"enabled": False}},), ()),
    "secrets": Variant((TLS, API_KEY, STORED, VERSION, {"workshop": {"claim": "decks"}}), ("Deployment", "Service")),
    "scaled": Variant((SCALED, COPIED), ("Deployment", "ScaledObject", "Service")),
    "scaled with TLS": Variant(
        (SCALED, TLS, VERSION), ("Deployment", "ScaledObject", "Service", "TriggerAuthentication")
    ),
    "scaled with a key": Variant((SCALED, API_KEY), ("Deployment", "ScaledObject", "Service", "TriggerAuthentication")),
    "open": Variant((OPEN, PLACED, NAMED), ("Deployment", "Ingress", "Service")),
    "codec and timer": Variant(
        (OPEN, STORED, CODEC, TIMED, NAMED, {"workshop": {"claim": "decks", "oneMachine": True}}),
        ("CronJob", "Deployment", "Deployment", "Ingress", "Ingress", "Service", "Service"),
    ),
}
