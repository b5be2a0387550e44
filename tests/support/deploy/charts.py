"""What is wrong with what the chart makes, beyond what Helm and the schemas of Kubernetes find."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, cast

import helm_python  # pyright: ignore[reportMissingTypeStubs]
import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]
import yaml

from llm_do_temporal.errors import UsageError
from tests.support.deploy.programs import HEALTH_PATHS, OPEN_PAGES, ROOT, VARIABLES, command_faults

CHART = ROOT / "deploy/helm/llm-do-temporal"
KUBERNETES = ("1.27", "1.36")
"""The oldest and the newest that it is checked against."""
Manifest = dict[str, Any]
_TRIGGER = """
    endpoint namespace taskQueue queueTypes targetQueueSize activationTargetQueueSize workerDeploymentName
    workerDeploymentBuildId includeRunningWorkflowCount workflowTaskQueueForCount minConnectTimeout unsafeSsl
    tlsServerName enableTLS
"""
TRIGGER = frozenset(_TRIGGER.split())
"""What KEDA's scaler for Temporal reads, https://keda.sh/docs/2.21/scalers/temporal/; `make chart-test` asks it."""
TRIGGER_SECRETS = frozenset({"apiKey", "ca", "cert", "key", "keyPassword"})


def render(values: dict[str, Any], release: str = "decks") -> list[Manifest]:
    """What Helm makes of the chart. Raises UsageError for values that it refuses."""
    try:
        with helm_python.Chart.load(CHART) as chart:
            texts = chart.render(values, name=release, namespace="team")
    except helm_python.HelmError as error:
        raise UsageError(str(error)) from error
    templates = (text for name, text in texts.items() if name.endswith(".yaml"))
    return [one for text in templates for one in yaml.safe_load_all(text) if one]


def chart_faults(manifests: list[Manifest], versions: tuple[str, ...] = KUBERNETES) -> list[str]:
    """Everything that is wrong for these versions of Kubernetes."""
    faults = [f"{_called(one)}: {fault}" for one in manifests for fault in _shape_faults(one, versions)]
    names = [_called(one) for one in manifests]
    faults += [f"{name} is there twice" for name in set(names) if names.count(name) > 1]
    for one in manifests:
        faults += [f"{_called(one)}: {fault}" for fault in _faults(one, manifests)]
    return faults


def variables(manifest: Manifest) -> dict[str, str | None]:
    """The variables of a program; None: it comes from a secret."""
    return {one["name"]: one.get("value") for one in container(manifest)["env"]}


def container(manifest: Manifest) -> dict[str, Any]:
    """The program of a Deployment or CronJob."""
    (only,) = pod(manifest)["containers"]
    return only


def pod(manifest: Manifest) -> dict[str, Any]:
    """The pods of a Deployment or CronJob."""
    spec = manifest["spec"]["jobTemplate"]["spec"] if manifest["kind"] == "CronJob" else manifest["spec"]
    return spec["template"]["spec"]


def _faults(one: Manifest, all_of_them: list[Manifest]) -> Iterable[str]:
    find = _FAULTS.get(one["kind"])
    return [f"the chart has no business with a {one['kind']}"] if find is None else find(one, all_of_them)


def _deployment_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    if not _selects(one["spec"]["selector"]["matchLabels"], one):
        yield "it does not select its own pods"
    yield from _pod_faults(one, all_of_them)
    yield from _probe_faults(one)


def _job_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    if one["spec"]["concurrencyPolicy"] != "Forbid":
        yield "it begins beside itself"
    yield from _pod_faults(one, all_of_them)


def _service_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    found = [each for each in _named(all_of_them, "Deployment").values() if _selects(one["spec"]["selector"], each)]
    if len(found) != 1:
        yield f"it selects {len(found)} deployments"
    for port in one["spec"]["ports"]:
        yield from (
            f"there is no port {port['targetPort']}" for each in found if port["targetPort"] not in _ports(each)
        )


def _disruption_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    selector = one["spec"]["selector"]["matchLabels"]
    if not any(_selects(selector, each) for each in _named(all_of_them, "Deployment").values()):
        yield "it selects nothing"


def _authentication_faults(one: Manifest, _: list[Manifest]) -> Iterator[str]:
    for secret in one["spec"]["secretTargetRef"]:
        if secret["parameter"] not in TRIGGER_SECRETS:
            yield f"KEDA does not know {secret['parameter']}"


def _ingress_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    for rule in one["spec"]["rules"]:
        backend = rule["http"]["paths"][0]["backend"]["service"]["name"]
        if backend not in _named(all_of_them, "Service"):
            yield f"there is no service {backend}"


def _pod_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    pods, program = pod(one), container(one)
    if pods["serviceAccountName"] not in _named(all_of_them, "ServiceAccount"):
        yield f"there is no account {pods['serviceAccountName']}"
    yield from command_faults(program["args"])
    yield from (f"nobody reads the variable {name}" for name in variables(one) if name not in VARIABLES)
    names = [each["name"] for each in program["env"]]
    yield from (f"{name} is set twice" for name in set(names) if names.count(name) > 1)
    safe = program["securityContext"]
    if not (safe.get("readOnlyRootFilesystem") and safe["capabilities"]["drop"] == ["ALL"]):
        yield "its root filesystem can be written, or it keeps capabilities"
    if safe.get("procMount") == "Unmasked" and pods.get("hostUsers") is not False:
        yield "Kubernetes unmasks /proc only for pods with users of their own"
    if not (pods["securityContext"].get("runAsNonRoot") and pods["securityContext"]["runAsUser"]):
        yield "it may run as root"
    mounted = [each["name"] for each in program["volumeMounts"]]
    if sorted(mounted) != sorted(each["name"] for each in pods["volumes"]):
        yield "its volumes are not what it mounts"
    under_way = variables(one).get("LLM_DO_GRACEFUL_SHUTDOWN_SECONDS")
    if under_way and pods["terminationGracePeriodSeconds"] <= int(under_way):
        yield "it is killed before it has finished what is under way"


def _probe_faults(one: Manifest) -> Iterator[str]:
    program = container(one)
    command = program["args"][0]
    wanted = {"worker": {"livenessProbe": HEALTH_PATHS[0], "readinessProbe": HEALTH_PATHS[1]}}.get(
        command, dict.fromkeys(("livenessProbe", "readinessProbe"), OPEN_PAGES.get(command))
    )
    for probe, path in wanted.items():
        asked = program[probe]["httpGet"]
        if asked["port"] not in _ports(one):
            yield f"the {probe} asks at a port that there is not"
        if asked["path"] != path:
            yield f"the {probe} asks for {asked['path']}"
        hosts = [part.partition("=")[2] for part in program["args"] if part.startswith("--allowed-host=")]
        if hosts and [each["value"] for each in asked.get("httpHeaders", ())] != hosts[:1]:
            yield f"the {probe} is refused for its Host"
    named = [variables(one).get(name) for name in ("LLM_DO_HEALTH_PORT", "LLM_DO_METRICS_PORT")]
    named += [part.partition("=")[2] for part in program["args"] if part.startswith("--port=")]
    if sorted(int(port) for port in named if port) != sorted(_ports(one).values()):
        yield "its ports are not those that the program is told"


def _scaler_faults(one: Manifest, all_of_them: list[Manifest]) -> Iterator[str]:
    target = _named(all_of_them, "Deployment").get(one["spec"]["scaleTargetRef"]["name"])
    if target is None:
        yield "it scales nothing"
        return
    if "replicas" in target["spec"]:
        yield "each upgrade would undo what it has scaled"
    secrets = _named(all_of_them, "TriggerAuthentication")
    for trigger in one["spec"]["triggers"]:
        said: dict[str, Any] = trigger["metadata"]
        yield from (f"KEDA does not know {name}" for name in said if name not in TRIGGER)
        yield from (
            f"KEDA takes text, and {name} is none" for name, value in said.items() if not isinstance(value, str)
        )
        if (reference := trigger.get("authenticationRef")) and reference["name"] not in secrets:
            yield f"there is no {reference['name']}"
        told = variables(target)
        if (said["endpoint"], said["namespace"]) != (told["TEMPORAL_ADDRESS"], told["TEMPORAL_NAMESPACE"]):
            yield "it looks at another server than the worker service"


_FAULTS: dict[str, Callable[[Manifest, list[Manifest]], Iterable[str]]] = {
    "Deployment": _deployment_faults,
    "CronJob": _job_faults,
    "Service": _service_faults,
    "PodDisruptionBudget": _disruption_faults,
    "ScaledObject": _scaler_faults,
    "TriggerAuthentication": _authentication_faults,
    "Ingress": _ingress_faults,
    "ServiceAccount": lambda _one, _all: (),
}
"""What looks for faults in a manifest, by its kind, with all that there are."""


def _shape_faults(one: Manifest, versions: tuple[str, ...]) -> Iterator[str]:
    if "keda.sh" not in one["apiVersion"]:
        yield from _misshapen(json.dumps(one), versions)


@cache
def _misshapen(manifest: str, versions: tuple[str, ...]) -> tuple[str, ...]:
    """What the schemas of Kubernetes have against it; most manifests of a test are those of the test before."""
    faults: list[str] = []
    for version in versions:
        try:
            kubernetes_validate.validate(json.loads(manifest), version, strict=True)
        except kubernetes_validate.ValidationError as error:
            faults.append(f"Kubernetes {version}: {cast('Any', error).message}")
    return tuple(faults)


def _selects(selector: dict[str, str], deployment: Manifest) -> bool:
    return selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def _ports(deployment: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container(deployment)["ports"]}


def _named(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Those of a kind, by their names."""
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def _called(one: Manifest) -> str:
    return f"{one['kind']} {one['metadata']['name']}"
