"""Settings of the worker service: flags, then variables, then a file, then the defaults here.

Owns their names and limits. The connection has settings of its own, those of the `temporal` CLI.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BeforeValidator, Field, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import ResourceBasedTunerConfig, WorkerDeploymentConfig
from yaml import YAMLError

from llm_do_temporal.activities.models.batches import BatchTimes
from llm_do_temporal.environment import PREFIX, check_spelling
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extension import service_settings
from llm_do_temporal.messages.base import TASK_QUEUE
from llm_do_temporal.policy.queues import ROLES, Role
from llm_do_temporal.policy.shell import Isolation
from llm_do_temporal.service.build import ServiceSettings

FILE_VARIABLE = "LLM_DO_SETTINGS"
"""Variable that names the settings file."""
DEPLOYMENT_VARIABLE = "TEMPORAL_DEPLOYMENT_NAME"
BUILD_VARIABLE = "TEMPORAL_WORKER_BUILD_ID"
_MOST = 100_000
"""Upper limit of counts: far more than a process can do."""
_BEHAVIORS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}
T = TypeVar("T")
S = TypeVar("S", bound=BaseSettings)
Port = Annotated[int, Field(ge=1, le=65_535)]
Version = Annotated[str, Field(min_length=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]


def _listed(value: object) -> object:
    """Return a text with commas as the list it stands for; any other value as it is."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], NoDecode, BeforeValidator(_listed)]
Roles = Annotated[frozenset[Role], NoDecode, BeforeValidator(_listed), Field(min_length=1)]


class Settings(BaseSettings):
    """Settings of one process; each field is a key of the file and, with the prefix, a variable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    workshop: Path = Path()
    task_queue: str = TASK_QUEUE
    only: Roles = ROLES
    """Roles of this process: `workflows`, `models`, `files`, or several of them with commas between."""
    max_cached_workflows: int = Field(default=ServiceSettings.max_cached_workflows, ge=0, le=_MOST)
    max_concurrent_activities: int = Field(default=ServiceSettings.max_concurrent_activities, ge=1, le=_MOST)
    """Activities under way at once at each task queue; the next field limits workflow tasks."""
    max_concurrent_workflow_tasks: int = Field(default=ServiceSettings.max_concurrent_workflow_tasks, ge=2, le=_MOST)
    target_cpu: Fraction | None = None
    """Share of the machine's processors that may be busy before no more activities are begun; None: not looked at."""
    target_memory: Fraction | None = None
    """Share of the machine's memory that may be taken; set both targets or neither."""
    graceful_shutdown_seconds: float = Field(default=ServiceSettings.graceful_shutdown.total_seconds(), ge=0, le=86_400)
    batch_window_seconds: float = Field(default=BatchTimes.window.total_seconds(), ge=0, le=600)
    """Time that requests of turns in batches wait for others, to leave together."""
    batch_check_seconds: float = Field(default=BatchTimes.check.total_seconds(), gt=0, le=3_600)
    """Time to the first look at a provider's batch; the times between later ones grow."""
    isolation: Isolation = ServiceSettings.isolation
    """`required`: on a machine without isolation no command is run, whatever the workshop says."""
    listen: str = "127.0.0.1"
    """Address that health and metrics are served at; 0.0.0.0 in a container."""
    health_port: Port | None = None
    """Port of `/healthz` and `/readyz`; None serves neither."""
    metrics_port: Port | None = None
    """Port of `/metrics`, for Prometheus; None keeps no metrics."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    deployment_name: Version | None = Field(default=None, validation_alias=DEPLOYMENT_VARIABLE)
    build_id: Version | None = Field(default=None, validation_alias=BUILD_VARIABLE)
    versioning: Literal["auto_upgrade", "pinned"] = "auto_upgrade"
    """Fate of a run when another version is made current: it goes on there, or ends on the version where it began."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """See BaseSettings."""
        file = os.environ.get(FILE_VARIABLE)
        files = (YamlConfigSettingsSource(settings_cls, yaml_file=file),) if file else ()
        return (init_settings, env_settings, *files)

    @property
    def service(self) -> ServiceSettings:
        """Settings of the Temporal worker. Raises UsageError."""
        cpu, memory = (_variable("target_cpu"), self.target_cpu), (_variable("target_memory"), self.target_memory)
        targets = _both_or_neither(cpu, memory)
        named = _both_or_neither((DEPLOYMENT_VARIABLE, self.deployment_name), (BUILD_VARIABLE, self.build_id))
        deployment = named and WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(*named),
            use_worker_versioning=True,
            default_versioning_behavior=_BEHAVIORS[self.versioning],
        )
        return ServiceSettings(
            task_queue=self.task_queue,
            only=self.only,
            max_cached_workflows=self.max_cached_workflows,
            max_concurrent_activities=self.max_concurrent_activities,
            max_concurrent_workflow_tasks=self.max_concurrent_workflow_tasks,
            isolation=self.isolation,
            targets=targets and ResourceBasedTunerConfig(target_cpu_usage=targets[0], target_memory_usage=targets[1]),
            graceful_shutdown=timedelta(seconds=self.graceful_shutdown_seconds),
            batch_times=BatchTimes(
                timedelta(seconds=self.batch_window_seconds), timedelta(seconds=self.batch_check_seconds)
            ),
            deployment=deployment,
        )

    @property
    def added(self) -> dict[str, tuple[str, ...]]:
        """Settings that capabilities add, by their names."""
        return {name: getattr(self, name, ()) for name in service_settings()}


class EmbeddedSettings(Settings):
    """Settings of a service of the embedded server: what its caller says, alone. Variables and files are for deployed
    services, and several services on one machine would want the same ports."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """See BaseSettings."""
        return (init_settings,)


def read_settings(**flags: Any) -> Settings:
    """Read the settings; a flag of None counts as not given. Raises UsageError, which names the key or the variable."""
    file = os.environ.get(FILE_VARIABLE)
    if file and not Path(file).is_file():
        raise UsageError(f"{FILE_VARIABLE} names '{file}', which is no file")
    check_spelling(os.environ)
    try:
        return _extended(Settings)(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        variable = _variable(str(first["loc"][0]))
        raise UsageError(f"the setting '{key}' ({variable}) cannot be used: {first['msg']}") from None
    except (SettingsError, YAMLError, OSError, ValueError) as error:
        source = f"the settings file '{file}'" if file else "the settings"
        raise UsageError(f"{source} cannot be used: {(str(error).splitlines() or [''])[0]}") from error


def _both_or_neither(one: tuple[str, T | None], other: tuple[str, T | None]) -> tuple[T, T] | None:
    """Return two values, given each with its variable; None if both are None. Raises UsageError for a single one."""
    (name, value), (other_name, other_value) = one, other
    if value is None and other_value is None:
        return None
    if value is None or other_value is None:
        there, absent = (other_name, name) if value is None else (name, other_name)
        raise UsageError(f"{there} is set and {absent} is not", next_step="Set both of them, or neither.")
    return value, other_value


def _variable(key: str) -> str:
    return key if key.startswith("TEMPORAL_") else f"{PREFIX}{key.upper()}"


def embedded_settings(**given: Any) -> EmbeddedSettings:
    """Return the settings of a service of the embedded server, with those that capabilities add, of variables."""
    listed = {name: os.environ.get(_variable(name), "").split(",") for name in service_settings()}
    added = {name: tuple(one.strip() for one in words if one.strip()) for name, words in listed.items()}
    return _extended(EmbeddedSettings)(**given, **cast("dict[str, Any]", added))


def _extended(settings: type[S]) -> type[S]:
    """Return the class with the settings that capabilities add, each a list of names."""
    fields = dict.fromkeys(service_settings(), (Names, ()))
    return cast("Any", create_model)(settings.__name__, __base__=settings, **fields)
