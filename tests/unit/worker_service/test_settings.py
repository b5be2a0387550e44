"""Settings of the worker service: where they come from, which of them counts, and what is said of wrong ones."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.common import VersioningBehavior
from temporalio.worker import ResourceBasedTunerConfig

from llm_do_temporal.client.session import required_isolation
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.shell import Isolation
from llm_do_temporal.service.build import ServiceSettings
from worker_service.settings import EmbeddedSettings, embedded_settings, read_settings


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("LLM_DO_", "TEMPORAL_")):
            monkeypatch.delenv(name)


def test_without_a_word_the_defaults_hold() -> None:
    settings = read_settings()
    assert settings.service == ServiceSettings()
    assert (settings.health_port, settings.metrics_port, settings.log_format) == (None, None, "text")


def test_flags_come_before_variables_and_those_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "service.yaml").write_text(
        "task_queue: of-file\nmax_cached_workflows: 1\nmax_concurrent_activities: 2\ngraceful_shutdown_seconds: 3\n"
        "deployment_name: shop\nbuild_id: '1'\nversioning: pinned\n"
    )
    monkeypatch.setenv("LLM_DO_SETTINGS", str(file))
    monkeypatch.setenv("LLM_DO_TASK_QUEUE", "of-variable")
    monkeypatch.setenv("LLM_DO_MAX_CACHED_WORKFLOWS", "10")
    monkeypatch.setenv("TEMPORAL_WORKER_BUILD_ID", "2")
    service = read_settings(max_cached_workflows=100, workshop=None).service
    assert (service.task_queue, service.max_cached_workflows, service.max_concurrent_activities) == (
        "of-variable",
        100,
        2,
    )
    assert service.graceful_shutdown == timedelta(seconds=3)
    assert service.deployment is not None
    assert (service.deployment.version.deployment_name, service.deployment.version.build_id) == ("shop", "2")
    assert service.deployment.default_versioning_behavior is VersioningBehavior.PINNED


@pytest.mark.parametrize("flag", ["workflows, models", None])
def test_roles_are_a_list_with_commas(flag: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if flag is None:
        (file := tmp_path / "service.yaml").write_text("only: [models, workflows]\n")
        monkeypatch.setenv("LLM_DO_SETTINGS", str(file))
    else:
        monkeypatch.setenv("LLM_DO_ONLY", "files")
    assert read_settings(only=flag).service.only == {"workflows", "models"}


def test_a_service_of_the_embedded_server_hears_nothing_of_deployed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "service.yaml").write_text("health_port: 8080\ndeployment_name: shop\nbuild_id: '1'\n")
    monkeypatch.setenv("LLM_DO_SETTINGS", str(file))
    monkeypatch.setenv("LLM_DO_METRICS_PORT", "9090")
    monkeypatch.setenv("LLM_DO_ONLY", "models")
    monkeypatch.setenv("LLM_DO_LOG_LEVEL", "loud")
    settings = EmbeddedSettings(workshop=tmp_path, task_queue="here")
    assert (settings.workshop, settings.health_port, settings.metrics_port) == (tmp_path, None, None)
    assert settings.service == ServiceSettings(task_queue="here")


def test_required_isolation_counts_for_every_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert required_isolation() is read_settings().service.isolation is Isolation.PREFERRED
    monkeypatch.setenv("LLM_DO_ISOLATION", "required")
    assert required_isolation() is read_settings().service.isolation is Isolation.REQUIRED
    embedded = EmbeddedSettings(workshop=tmp_path, isolation=required_isolation())
    assert embedded.service.isolation is Isolation.REQUIRED
    monkeypatch.setenv("LLM_DO_ISOLATION", "always")
    with pytest.raises(UsageError, match="LLM_DO_ISOLATION is 'required' or 'preferred', not 'always'"):
        required_isolation()


@pytest.mark.parametrize(("text", "endpoints"), [("", ()), ("a", ("a",)), (" a, b ,", ("a", "b"))])
@pytest.mark.extension("nexus")
def test_endpoints_count_for_a_service_of_the_embedded_server_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, endpoints: tuple[str, ...]
) -> None:
    monkeypatch.setenv("LLM_DO_NEXUS_ENDPOINTS", text)
    assert embedded_settings(workshop=tmp_path).added == {"nexus_endpoints": endpoints}


def test_the_version_is_not_what_a_build_server_calls_its_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_ID", "7")
    monkeypatch.setenv("DEPLOYMENT_NAME", "shop")
    assert read_settings().service.deployment is None


def test_how_full_a_machine_may_get_is_said_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "service.yaml").write_text("target_cpu: 0.9\n")
    monkeypatch.setenv("LLM_DO_SETTINGS", str(file))
    monkeypatch.setenv("LLM_DO_TARGET_MEMORY", "0.75")
    monkeypatch.setenv("LLM_DO_MAX_CONCURRENT_WORKFLOW_TASKS", "20")
    assert read_settings().service == ServiceSettings(
        targets=ResourceBasedTunerConfig(target_cpu_usage=0.9, target_memory_usage=0.75),
        max_concurrent_workflow_tasks=20,
    )


def test_empty_variables_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLM_DO_TASK_QUEUE", "LLM_DO_HEALTH_PORT", "TEMPORAL_DEPLOYMENT_NAME", "LLM_DO_SETTINGS"):
        monkeypatch.setenv(name, "")
    assert read_settings().service == ServiceSettings()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TEMPORAL_DEPLOYMENT_NAME": "a"}, "TEMPORAL_DEPLOYMENT_NAME is set and TEMPORAL_WORKER_BUILD_ID is not"),
        ({"TEMPORAL_WORKER_BUILD_ID": "a"}, "TEMPORAL_WORKER_BUILD_ID is set and TEMPORAL_DEPLOYMENT_NAME is not"),
        ({"LLM_DO_HEALTH_PORT": "70000"}, "'health_port' (LLM_DO_HEALTH_PORT) cannot be used"),
        ({"LLM_DO_METRICS_PORT": "none"}, "'metrics_port' (LLM_DO_METRICS_PORT) cannot be used"),
        ({"LLM_DO_LOG_FORMAT": "xml"}, "Input should be 'text' or 'json'"),
        ({"LLM_DO_MAX_CONCURRENT_ACTIVITIES": "0"}, "'max_concurrent_activities'"),
        ({"LLM_DO_MAX_CONCURRENT_WORKFLOW_TASKS": "1"}, "'max_concurrent_workflow_tasks'"),
        ({"LLM_DO_TARGET_CPU": "0.9"}, "LLM_DO_TARGET_CPU is set and LLM_DO_TARGET_MEMORY is not"),
        ({"LLM_DO_TARGET_MEMORY": "0.8"}, "LLM_DO_TARGET_MEMORY is set and LLM_DO_TARGET_CPU is not"),
        ({"LLM_DO_TARGET_CPU": "0", "LLM_DO_TARGET_MEMORY": "0.8"}, "'target_cpu' (LLM_DO_TARGET_CPU)"),
        ({"LLM_DO_TARGET_CPU": "0.9", "LLM_DO_TARGET_MEMORY": "80"}, "'target_memory' (LLM_DO_TARGET_MEMORY)"),
        ({"LLM_DO_VERSIONING": "sometimes"}, "'versioning' (LLM_DO_VERSIONING)"),
        ({"LLM_DO_ISOLATION": "always"}, "'isolation' (LLM_DO_ISOLATION) cannot be used"),
        ({"LLM_DO_ONLY": "workflows,model"}, "'only.1' (LLM_DO_ONLY)"),
        ({"LLM_DO_MAX_CACHED_WORKFLOWS": "9" * 30}, "'max_cached_workflows'"),
        ({"LLM_DO_HEALT_PORT": "80"}, "LLM_DO_HEALT_PORT is none that is known; did you mean LLM_DO_HEALTH_PORT?"),
        ({"LLM_DO_SETTINGS": "/nowhere.yaml"}, "LLM_DO_SETTINGS names '/nowhere.yaml', which is no file"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_names_the_variable(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as told:
        assert read_settings().service
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("health_prot: 8080\n", "'health_prot'"), ("health_port: [\n", "cannot be used"), ("- a\n", "cannot be used")],
)
def test_a_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "service.yaml").write_text(text)
    monkeypatch.setenv("LLM_DO_SETTINGS", str(file))
    with pytest.raises(UsageError) as told:
        read_settings()
    assert said in str(told.value)
