"""The Helm chart, rendered by Helm, and what it makes, held against Kubernetes, KEDA and our programs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import helm_python  # pyright: ignore[reportMissingTypeStubs]
import pytest
import yaml

from llm_do_temporal.errors import UsageError
from tests.support.deploy.charts import CHART, KUBERNETES, Manifest, chart_faults, container, pod, render, variables
from tests.support.deploy.programs import ROOT
from tests.support.deploy.releases import (
    ALWAYS,
    API_KEY,
    CODEC,
    COPIED,
    OPEN,
    SCALED,
    STORED,
    TIMED,
    TLS,
    VARIANTS,
    VERSION,
    Values,
    Variant,
    values,
)


def kinds(manifests: list[Manifest]) -> list[str]:
    return sorted(one["kind"] for one in manifests)


def deployment(manifests: list[Manifest], part: str) -> Manifest:
    found = [one for one in manifests if one["kind"] == "Deployment" and one["metadata"]["name"].endswith(f"-{part}")]
    return found[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.extension("codec_server", "maintenance")
def test_what_it_makes_is_what_kubernetes_and_our_programs_take(variant: Variant) -> None:
    manifests = render(variant.values)
    assert chart_faults(manifests) == []
    assert kinds(manifests) == sorted(ALWAYS + variant.made)


def test_helm_has_nothing_to_say_against_it() -> None:
    report = helm_python.lint(CHART, values(), strict=True)
    assert report["errors"] == []
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temporal": {"address": "temporal"}}, "/temporal/address"),
        ({"temporal": {"adress": "temporal:7233"}}, "adress"),
        ({"worker": {"versioning": {"deploymentName": "decks"}}}, "/worker/versioning"),
        ({"worker": {"versioning": {"buildId": "1"}}}, "/worker/versioning"),
        ({"worker": {"versioning": {"behavior": "sometimes"}}}, "/worker/versioning/behavior"),
        ({"worker": {"replicas": -1}}, "/worker/replicas"),
        ({"worker": {"replicas": "two"}}, "/worker/replicas"),
        ({"worker": {"strategy": "recreate"}}, "/worker/strategy"),
        ({"worker": {"gracefulShutdownSeconds": 90_000}}, "/worker/gracefulShutdownSeconds"),
        ({"worker": {"env": {"LLM DO": "x"}}}, "LLM DO"),
        ({"env": {"LLM_DO_ONLY": "files"}}, "env"),
        ({"worker": {"scaling": {"targetQueueSize": 0}}}, "/worker/scaling/targetQueueSize"),
        ({"blobs": {"url": "bucket/decks"}}, "/blobs/url"),
        ({"blobs": {"url": "s3://key:secret@bucket"}}, "/blobs/url"),
        ({"workshop": {"claim": "decks", **COPIED["workshop"]}}, "/workshop"),
        ({"page": {"hosts": []}}, "/page/hosts"),
        ({"page": {"hosts": ["https://approvals.example.com"]}}, "/page/hosts/0"),
        ({"page": {"url": "approvals.example.com"}}, "/page/url"),
        ({"page": {"tokens": {"secretName": ""}}}, "/page/tokens/secretName"),
        ({"encryption": {"secretName": "Not_a_name"}}, "/encryption/secretName"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"postgresql": {"enabled": True}}, "postgresql"),
        ({"worker": {"isolation": "yes"}}, "/worker/isolation"),
        (CODEC, "/encryption/secretName"),
        ({**STORED, "codecServer": {**CODEC["codecServer"], "hosts": []}}, "/codecServer/hosts"),
        ({**STORED, "codecServer": {**CODEC["codecServer"], "uiOrigins": []}}, "/codecServer/uiOrigins"),
        ({**STORED, "codecServer": {**CODEC["codecServer"], "tokens": {}}}, "/codecServer/tokens/secretName"),
        ({"gc": {"schedule": "daily"}}, "/gc/schedule"),
        ({"gc": {"olderThan": "soon"}}, "/gc/olderThan"),
    ],
    ids=str,
)
def test_it_refuses_values_that_make_no_sense(change: Values, said: str) -> None:
    with pytest.raises(UsageError, match="schema") as told:
        render(values(change))
    assert said in str(told.value)


def test_the_worker_service_is_told_what_the_values_say() -> None:
    manifests = render(values(TLS, STORED, VERSION, OPEN, {"worker": {"env": {"LLM_DO_LOG_LEVEL": "DEBUG"}}}))
    worker = deployment(manifests, "worker")
    said = variables(worker)
    assert (
        said
        | {
            "TEMPORAL_ADDRESS": "temporal-frontend.temporal:7233",
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_CLIENT_CERT_PATH": "/secrets/temporal/tls.crt",
            "TEMPORAL_DEPLOYMENT_NAME": "pitch-decks",
            "TEMPORAL_WORKER_BUILD_ID": "2026-11-21",
            "LLM_DO_ENCRYPTION": "required",
            "LLM_DO_ENCRYPTION_KEY_FILE": "/secrets/encryption/encryption_keys",
            "LLM_DO_BLOBS_URL": "s3://bucket/decks",
            "LLM_DO_UI_URL": "https://approvals.example.com",
            "LLM_DO_LOG_LEVEL": "DEBUG",
        }
        == said
    )
    assert [one["secretRef"]["name"] for one in container(worker)["envFrom"]] == ["s3", "models"]
    # The page asks no model.
    assert [one["secretRef"]["name"] for one in container(deployment(manifests, "page"))["envFrom"]] == ["s3"]


def test_secrets_are_named_and_never_written() -> None:
    manifests = render(values(TLS, API_KEY, STORED))
    assert "Secret" not in kinds(manifests)
    assert variables(deployment(manifests, "worker"))["TEMPORAL_API_KEY"] is None


def test_a_public_authority_is_not_looked_for_in_the_secret() -> None:
    manifests = render(values(SCALED, TLS, {"temporal": {"tls": {"caKey": ""}}}))
    assert "TEMPORAL_TLS_SERVER_CA_CERT_PATH" not in variables(deployment(manifests, "worker"))
    (secrets,) = [one["spec"]["secretTargetRef"] for one in manifests if one["kind"] == "TriggerAuthentication"]
    assert [one["parameter"] for one in secrets] == ["cert", "key"]


def test_it_does_not_scale_where_keda_cannot_connect() -> None:
    with pytest.raises(UsageError, match="KEDA speaks TLS only with"):
        render(values(SCALED, {"temporal": {"tls": {"enabled": True}}}))


def test_for_a_volume_of_one_machine_the_old_ones_end_first() -> None:
    manifests = render(values({"worker": {"strategy": "Recreate"}}))
    assert deployment(manifests, "worker")["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.extension("codec_server", "maintenance")
def test_a_volume_of_one_machine_keeps_all_pods_together() -> None:
    given: Values = {"worker": {"affinity": {"nodeAffinity": {}}}}
    manifests = render(values(given, {"workshop": {"claim": "decks", "oneMachine": True}}))
    assert chart_faults(manifests) == []
    pods = [deployment(manifests, part)["spec"]["template"] for part in ("worker", "page")]
    for one in pods:
        (beside,) = one["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert beside["topologyKey"] == "kubernetes.io/hostname"
        # Its own labels are among them: else the first pod would wait for another for ever.
        assert all(
            beside["labelSelector"]["matchLabels"].items() <= other["metadata"]["labels"].items() for other in pods
        )
    assert ["nodeAffinity" in pod["spec"]["affinity"] for pod in pods] == [True, False]


@pytest.mark.extension("codec_server", "maintenance")
def test_each_role_is_a_release_of_its_own() -> None:
    role: Values = {"worker": {"env": {"LLM_DO_ONLY": "workflows,models"}}, "page": {"enabled": False}}
    manifests = render(values(role))
    assert chart_faults(manifests) == []
    assert kinds(manifests) == list(ALWAYS)
    assert variables(deployment(manifests, "worker"))["LLM_DO_ONLY"] == "workflows,models"


def test_what_fills_the_workshop_may_no_more_than_the_program() -> None:
    (fills,) = deployment(render(values(COPIED)), "worker")["spec"]["template"]["spec"]["initContainers"]
    assert fills["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.extension("codec_server", "maintenance")
def test_commands_can_be_isolated_where_the_values_say_so() -> None:
    manifests = render(values(STORED, CODEC, TIMED, {"worker": {"isolation": True}}))
    # The oldest that it is checked against knows no profile of AppArmor; the documentation asks for a newer one.
    assert chart_faults(manifests, KUBERNETES[1:]) == []
    worker = deployment(manifests, "worker")
    allowed = container(worker)["securityContext"]
    assert allowed["procMount"] == "Unmasked"
    assert allowed["seccompProfile"] == allowed["appArmorProfile"] == {"type": "Unconfined"}
    assert pod(worker)["hostUsers"] is False
    # Nobody else runs commands.
    others = [one for one in manifests if one["kind"] in ("Deployment", "CronJob") and one is not worker]
    assert len(others) == 3
    assert not any("procMount" in container(one)["securityContext"] or "hostUsers" in pod(one) for one in others)


def test_the_timer_removes_blobs_as_the_worker_services_keep_them() -> None:
    manifests = render(values(STORED, TIMED, {"gc": {"olderThan": "2d"}}))
    (timer,) = [one for one in manifests if one["kind"] == "CronJob"]
    assert timer["spec"]["schedule"] == "30 2 * * 0"
    assert container(timer)["args"] == ["gc", "--older-than=2d"]
    told, worker = variables(timer), variables(deployment(manifests, "worker"))
    assert told.items() <= worker.items()
    assert [one["secretRef"]["name"] for one in container(timer)["envFrom"]] == ["s3"]


def test_the_codec_server_answers_the_ui_that_the_values_name() -> None:
    manifests = render(values(STORED, CODEC))
    codec = deployment(manifests, "codec-server")
    assert "--ui-origin=https://temporal.example.com" in container(codec)["args"]
    (ingress,) = [one for one in manifests if one["kind"] == "Ingress"]
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["codec.example.com"]
    assert variables(codec)["LLM_DO_ENCRYPTION_KEY_FILE"] == "/secrets/encryption/encryption_keys"


def test_the_backlog_of_each_queue_is_looked_at() -> None:
    (scaler,) = [one for one in render(values(SCALED, VERSION)) if one["kind"] == "ScaledObject"]
    said = [trigger["metadata"] for trigger in scaler["spec"]["triggers"]]
    assert [one["taskQueue"] for one in said] == ["llm-do", "llm-do.files"]
    assert {one["workerDeploymentBuildId"] for one in said} == {"2026-11-21"}
    (scaler,) = [
        one for one in render(values({"worker": {"scaling": {"enabled": True}}})) if one["kind"] == "ScaledObject"
    ]
    assert [trigger["metadata"]["taskQueue"] for trigger in scaler["spec"]["triggers"]] == ["llm-do"]


def test_the_version_of_the_chart_is_that_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version


Change = Callable[[dict[str, Manifest]], object]
WRONG: list[tuple[Change, str]] = [
    (lambda m: container(m["worker"])["env"].append({"name": "LLM_DO_TASKQUEUE", "value": "x"}), "LLM_DO_TASKQUEUE"),
    (lambda m: container(m["worker"])["env"].append({"name": "LLM_DO_LISTEN", "value": "x"}), "is set twice"),
    (lambda m: container(m["worker"])["livenessProbe"]["httpGet"].update(path="/health"), "asks for /health"),
    (lambda m: container(m["worker"])["readinessProbe"]["httpGet"].update(port="http"), "a port that there is not"),
    (lambda m: container(m["worker"])["ports"][0].update(containerPort=8081), "not those that the program is told"),
    (lambda m: container(m["worker"])["securityContext"].pop("readOnlyRootFilesystem"), "root filesystem"),
    (lambda m: container(m["worker"]).update(imagePullPolcy="Always"), "imagePullPolcy"),
    (lambda m: container(m["worker"])["volumeMounts"].pop(), "not what it mounts"),
    (lambda m: container(m["page"])["args"].append("--allow-host=x"), "Unknown option"),
    (lambda m: container(m["page"])["livenessProbe"]["httpGet"].pop("httpHeaders"), "refused for its Host"),
    (lambda m: m["worker"]["spec"]["selector"]["matchLabels"].update(a="b"), "does not select its own pods"),
    (lambda m: m["worker"]["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=60), "killed before"),
    (lambda m: m["worker"]["spec"].update(replicas=2), "undo what it has scaled"),
    (lambda m: m["service"]["spec"]["selector"].update({"app.kubernetes.io/component": "x"}), "selects 0 deployments"),
    (lambda m: m["service"]["spec"]["ports"][0].update(targetPort="https"), "no port https"),
    (lambda m: m["timer"]["spec"].update(concurrencyPolicy="Allow"), "begins beside itself"),
    (lambda m: container(m["timer"])["args"].append("--older=1h"), "Unknown option"),
    (lambda m: container(m["worker"])["securityContext"].update(procMount="Unmasked"), "users of their own"),
    (lambda m: m["scaler"]["spec"]["scaleTargetRef"].update(name="x"), "scales nothing"),
    (lambda m: m["scaler"]["spec"]["triggers"][0]["metadata"].update(queueName="x"), "KEDA does not know queueName"),
    (lambda m: m["scaler"]["spec"]["triggers"][0]["metadata"].update(targetQueueSize=5), "KEDA takes text"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("change", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_found(change: Change, said: str) -> None:
    manifests = render(values(SCALED, TIMED, {"encryption": {"secretName": "keys"}}))
    (timer,) = [one for one in manifests if one["kind"] == "CronJob"]
    (scaler,) = [one for one in manifests if one["kind"] == "ScaledObject"]
    (service,) = [one for one in manifests if one["kind"] == "Service"]
    parts = {part: deployment(manifests, part) for part in ("worker", "page")}
    change({**parts, "service": service, "scaler": scaler, "timer": timer})
    assert any(said in fault for fault in chart_faults(manifests)), chart_faults(manifests)
