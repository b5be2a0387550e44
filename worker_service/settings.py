"""Settings of the worker service: flags, then variables, then a file, then the defaults here.

Owns their names and limits. The connection has its own, those of the `temporal` CLI.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig
from yaml import YAMLError

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages import TASK_QUEUE
from llm_do_temporal.policy.queues import ROLES, Role
from llm_do_temporal.service import ServiceSettings

PREFIX = "LLM_DO_"
FILE_VARIABLE = "LLM_DO_SETTINGS"
"""Names the file."""
DEPLOYMENT_VARIABLE = "TEMPORAL_DEPLOYMENT_NAME"
BUILD_VARIABLE = "TEMPORAL_WORKER_BUILD_ID"
_MOST = 100_000
"""Far more than one process can do."""
_NEARLY = 0.85
"""How alike a name is to one that was meant: a letter or two apart."""
_BEHAVIORS = {"auto_upgrade": VersioningBehavior.AUTO_UPGRADE, "pinned": VersioningBehavior.PINNED}
Port = Annotated[int, Field(ge=1, le=65_535)]
Version = Annotated[str, Field(min_length=1)]


def _listed(value: object) -> object:
    """One text with commas as the list that it is."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Roles = Annotated[frozenset[Role], NoDecode, BeforeValidator(_listed), Field(min_length=1)]


class Settings(BaseSettings):
    """What one process does; each field is a key of the file and, with the prefix, a variable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    workshop: Path = Path()
    task_queue: str = TASK_QUEUE
    only: Roles = ROLES
    """What this process does: `workflows`, `models`, `files`, or several of them with commas between."""
    max_cached_workflows: int = Field(default=ServiceSettings.max_cached_workflows, ge=0, le=_MOST)
    max_concurrent_activities: int = Field(default=ServiceSettings.max_concurrent_activities, ge=1, le=_MOST)
    graceful_shutdown_seconds: float = Field(default=ServiceSettings.graceful_shutdown.total_seconds(), ge=0, le=86_400)
    listen: str = "127.0.0.1"
    """Address that health and metrics are served at; 0.0.0.0 in a container."""
    health_port: Port | None = None
    """Of `/healthz` and `/readyz`; None: neither."""
    metrics_port: Port | None = None
    """Of `/metrics`, for Prometheus; None: none are kept."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    deployment_name: Version | None = Field(default=None, validation_alias=DEPLOYMENT_VARIABLE)
    build_id: Version | None = Field(default=None, validation_alias=BUILD_VARIABLE)
    versioning: Literal["auto_upgrade", "pinned"] = "auto_upgrade"
    """What becomes of a run when another version is made current: it goes on there, or ends where it began."""

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
        """What the Temporal worker is told. Raises UsageError."""
        return ServiceSettings(
            task_queue=self.task_queue,
            only=self.only,
            max_cached_workflows=self.max_cached_workflows,
            max_concurrent_activities=self.max_concurrent_activities,
            graceful_shutdown=timedelta(seconds=self.graceful_shutdown_seconds),
            deployment=self._deployment(),
        )

    def _deployment(self) -> WorkerDeploymentConfig | None:
        name, build = self.deployment_name, self.build_id
        if name is None and build is None:
            return None
        if name is None or build is None:
            there, absent = (
                (BUILD_VARIABLE, DEPLOYMENT_VARIABLE) if name is None else (DEPLOYMENT_VARIABLE, BUILD_VARIABLE)
            )
            raise UsageError(f"{there} is set and {absent} is not", next_step="Set both of them, or neither.")
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(name, build),
            use_worker_versioning=True,
            default_versioning_behavior=_BEHAVIORS[self.versioning],
        )


class EmbeddedSettings(Settings):
    """Those of a service of the embedded server: flags alone. What is said of deployed services is not for it, and
    of several on one machine each would want the same ports."""

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
    """The settings; flags that are None say nothing. Raises UsageError, which names the key or the variable."""
    file = os.environ.get(FILE_VARIABLE)
    if file and not Path(file).is_file():
        raise UsageError(f"{FILE_VARIABLE} names '{file}', which is no file")
    _check_spelling(os.environ)
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        variable = _variable(str(first["loc"][0]))
        raise UsageError(f"the setting '{key}' ({variable}) cannot be used: {first['msg']}") from None
    except (SettingsError, YAMLError, OSError, ValueError) as error:
        source = f"the settings file '{file}'" if file else "the settings"
        raise UsageError(f"{source} cannot be used: {(str(error).splitlines() or [''])[0]}") from error


def _variable(key: str) -> str:
    return key if key.startswith("TEMPORAL_") else f"{PREFIX}{key.upper()}"


def _check_spelling(environment: Iterable[str]) -> None:
    """Raise UsageError for a variable that is nearly one of ours. Others may be a key's, or of another program."""
    known = {_variable(key).removeprefix(PREFIX) for key in Settings.model_fields}
    for name in environment:
        rest = name.removeprefix(PREFIX)
        if rest == name or rest in known:
            continue
        if near := get_close_matches(rest, known, n=1, cutoff=_NEARLY):
            raise UsageError(f"the variable {name} is none of the settings; did you mean {PREFIX}{near[0]}?")
