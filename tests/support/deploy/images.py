"""What images of others are known to have, from their own Dockerfiles, configuration templates and documentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    """What an image has, as far as it is used here."""

    variables: str = ""
    """Names, with spaces between."""
    ports: tuple[int, ...] = ()
    programs: tuple[str, ...] = ()
    """What an entry point or a health check may run."""
    options: tuple[str, ...] = ()
    """Of its command."""
    places: tuple[str, ...] = ()
    """Where it looks for files, or keeps them."""


IMAGES = {
    "postgres": Image(
        variables="POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB",
        ports=(5432,),
        programs=("pg_isready",),
        options=("-c", "max_connections"),
        places=("/var/lib/postgresql/data",),
    ),
    # temporalio/temporal: docker/targets/server.Dockerfile, common/config/config_template_embedded.yaml.
    "temporalio/server": Image(
        variables="DB DB_PORT DBNAME POSTGRES_SEEDS POSTGRES_USER POSTGRES_PWD NUM_HISTORY_SHARDS BIND_ON_IP "
        "DYNAMIC_CONFIG_FILE_PATH PROMETHEUS_ENDPOINT LOG_LEVEL SQL_MAX_CONNS SQL_TLS_ENABLED",
        ports=(7233, 7243),
        programs=("nc",),
        places=("/etc/temporal/config/dynamicconfig/docker.yaml",),
    ),
    # temporalio/temporal: docker/targets/admin-tools.Dockerfile, tools/sql/main.go. The last ones are our script's.
    "temporalio/admin-tools": Image(
        variables="SQL_PLUGIN SQL_HOST SQL_PORT SQL_USER SQL_PASSWORD TEMPORAL_ADDRESS TEMPORAL_NAMESPACE RETENTION",
        programs=("/bin/sh",),
        places=("/setup",),
    ),
    # temporalio/ui: server/config/docker.yaml.
    "temporalio/ui": Image(
        variables="TEMPORAL_ADDRESS TEMPORAL_UI_PORT TEMPORAL_DEFAULT_NAMESPACE TEMPORAL_CORS_ORIGINS "
        "TEMPORAL_CODEC_ENDPOINT TEMPORAL_CODEC_INCLUDE_CREDENTIALS TEMPORAL_CODEC_PASS_ACCESS_TOKEN",
        ports=(8080,),
    ),
    # versity/versitygw: cmd/versitygw/main.go, docker-entrypoint.sh.
    "versity/versitygw": Image(
        variables="ROOT_ACCESS_KEY ROOT_SECRET_KEY VGW_PORT VGW_REGION VGW_HEALTH",
        ports=(7070,),
        programs=("wget",),
        options=("posix", "/data"),
        places=("/data/llm-do",),
    ),
    "prom/prometheus": Image(
        ports=(9090,),
        programs=("wget",),
        options=("--config.file", "--storage.tsdb.path", "--storage.tsdb.retention.time"),
        places=("/etc/prometheus", "/prometheus"),
    ),
    "grafana/grafana": Image(
        variables="GF_SECURITY_ADMIN_USER GF_SECURITY_ADMIN_PASSWORD GF_USERS_ALLOW_SIGN_UP "
        "GF_ANALYTICS_REPORTING_ENABLED GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH",
        ports=(3000,),
        programs=("wget",),
        places=("/etc/grafana/provisioning", "/var/lib/grafana/dashboards/llm-do.json", "/var/lib/grafana"),
    ),
}
