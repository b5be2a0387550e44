"""The compose file and the Dockerfile, held against what our programs and the images of others really have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.routing import Route
from temporalio.converter import DataConverter

from llm_do_temporal.client.embedded.host import server_command
from llm_do_temporal.definitions.yaml.documents import parse_yaml
from llm_do_temporal.encryption.keys import read_keys
from llm_do_temporal.ui.access import TokenAccess, read_token_file
from tests.support.deploy.compose_files import Compose, compose_faults
from tests.support.deploy.dockerfiles import dockerfile_faults
from tests.support.deploy.programs import OPEN_PAGES, ROOT

EXAMPLE = ROOT / "deploy/compose/env.example"
SCRIPTS = ROOT / "deploy/compose/temporal"
_COMPOSE = Path(sys.executable).parent / "docker-compose"


def config(variables: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `docker compose config` says with these variables."""
    (file := folder / "env").write_text(variables)
    command = [_COMPOSE, "--env-file", file, "--file", ROOT / "docker-compose.yml", "config", "--format", "json"]
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    return subprocess.run(command, env=bare, capture_output=True, text=True, check=False)


def filled(text: str) -> str:
    """The example with something in every place that it leaves empty."""
    return re.sub(r"^(\w+)=$", r"\1=1234", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Compose:
    """The file as it is with the example's settings."""
    done = config(filled(EXAMPLE.read_text()), tmp_path_factory.mktemp("compose"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.extension("codec_server")
def test_every_line_of_it_is_something_that_is_there(compose: Compose) -> None:
    assert compose_faults(compose) == []


def test_it_has_all_that_a_cluster_of_one_machine_needs(compose: Compose) -> None:
    assert {name: one["image"].rpartition(":")[0] for name, one in compose["services"].items()} == {
        "postgresql": "postgres",
        "temporal-schema": "temporalio/admin-tools",
        "temporal": "temporalio/server",
        "temporal-namespace": "temporalio/admin-tools",
        "temporal-ui": "temporalio/ui",
        "worker": "llm-do-temporal",
        "page": "llm-do-temporal",
        "codec-server": "llm-do-temporal",
        "blobs": "versity/versitygw",
        "prometheus": "prom/prometheus",
        "grafana": "grafana/grafana",
    }
    assert compose["services"]["worker"]["deploy"]["replicas"] == 2


Change = Callable[[dict[str, Any]], object]
WRONG: list[tuple[str, Change, str]] = [
    (
        "a variable of ours that is misspelt",
        lambda s: s["worker"]["environment"].update(LLM_DO_BLOB_URL="s3://b/p"),
        "worker: nobody reads the variable LLM_DO_BLOB_URL",
    ),
    (
        "a variable of an image that is misspelt",
        lambda s: s["temporal"]["environment"].update(POSTGRES_PASSWORD="x"),
        "temporal: nobody reads the variable POSTGRES_PASSWORD",
    ),
    ("an option that is misspelt", lambda s: s["page"]["command"].append("--token-fiel=x"), "Unknown option"),
    ("a command that there is not", lambda s: s["page"].update(command=["pgae"]), "Unknown command"),
    (
        "an option of another image",
        lambda s: s["prometheus"]["command"].append("--web.x=1"),
        "does not take '--web.x=1'",
    ),
    (
        "a service that there is not",
        lambda s: s["worker"]["depends_on"].update(redis={"condition": "service_started"}),
        "worker: it waits for 'redis', which there is not",
    ),
    ("a health that nobody asks for", lambda s: s["blobs"].pop("healthcheck"), "until 'blobs' is healthy"),
    (
        "a volume that there is not",
        lambda s: s["grafana"]["volumes"][-1].update(source="grafna"),
        "grafana: there is no volume 'grafna'",
    ),
    (
        "a file that there is not",
        lambda s: s["temporal"]["volumes"][0].update(source="/nowhere.yaml"),
        "temporal: there is no /nowhere.yaml",
    ),
    (
        "a place where nobody looks",
        lambda s: s["temporal"]["volumes"][0].update(target="/etc/temporal/dynamic.yaml"),
        "never looks at /etc/temporal/dynamic.yaml",
    ),
    (
        "a port that is taken",
        lambda s: s["grafana"]["ports"][0].update(published="9090"),
        "port 9090 is published 2 times",
    ),
    (
        "a port that nobody listens at",
        lambda s: s["page"]["ports"][0].update(target=8235),
        "page: it does not listen at port 8235",
    ),
    ("a port for everybody", lambda s: s["temporal"]["ports"][0].pop("host_ip"), "open to other machines"),
    (
        "an address where nobody listens",
        lambda s: s["worker"]["environment"].update(TEMPORAL_ADDRESS="temporal:7234"),
        "'temporal' does not listen at 'temporal:7234'",
    ),
    (
        "the address of nobody",
        lambda s: s["worker"]["environment"].update(AWS_ENDPOINT_URL="http://minio:9000"),
        "there is no 'minio'",
    ),
    (
        "an address that is not published",
        lambda s: s["temporal-ui"]["environment"].update(TEMPORAL_CODEC_ENDPOINT="http://localhost:8236"),
        "nothing is published at 'http://localhost:8236'",
    ),
    (
        "a health check at another port",
        lambda s: s["codec-server"]["healthcheck"]["test"].append("http://localhost:8234/sign-in"),
        "asked for at port 8234, where it does not listen",
    ),
    (
        "a health check that needs a token",
        lambda s: s["page"]["healthcheck"]["test"].append("http://localhost:8234/runs"),
        "asked for at /runs, which is not open to all",
    ),
    ("the health check of the worker service", lambda s: s["page"].pop("healthcheck"), "the port of another command"),
    (
        "a script that there is not",
        lambda s: s["temporal-schema"]["entrypoint"].append("/setup/a.sh"),
        "no /setup/a.sh",
    ),
    ("a secret that is not given", lambda s: s["worker"].update(secrets=[]), "not given /run/secrets/encryption_keys"),
    (
        "a secret that is not needed",
        lambda s: s["worker"]["secrets"].append({"source": "page_tokens", "target": "/run/secrets/page_tokens"}),
        "given /run/secrets/page_tokens and does not look at it",
    ),
    ("root", lambda s: s["worker"].pop("user"), "worker: it runs as root"),
    (
        "a container that cannot isolate",
        lambda s: s["worker"]["security_opt"].remove("systempaths=unconfined"),
        "worker: it cannot isolate the commands",
    ),
    (
        "a program that may gain rights",
        lambda s: s["page"].pop("security_opt"),
        "page: its programs may get more rights",
    ),
    ("a /tmp without bound", lambda s: s["page"].update(tmpfs=["/tmp"]), "page: its /tmp has no bound"),
    ("processes without bound", lambda s: s["worker"].pop("pids_limit"), "worker: it may start any number"),
    ("a log without bound", lambda s: s["blobs"].pop("logging"), "blobs: its log has no bound"),
    (
        "a health check by a name",
        lambda s: s["page"]["healthcheck"]["test"].append("http://localhost:8234/static/style.css"),
        "page: its health is asked for at localhost",
    ),
    ("a filesystem that can be written", lambda s: s["page"].pop("read_only"), "page: its root filesystem"),
    ("too little time to stop", lambda s: s["worker"].update(stop_grace_period="30s"), "killed before it has finished"),
    ("a second builder", lambda s: s["page"].update(build=s["worker"]["build"]), "2 services build the image"),
    ("no builder", lambda s: s["worker"].pop("build"), "0 services build the image"),
    ("no Dockerfile", lambda s: s["worker"]["build"].update(dockerfile="Dockerfile"), "no Dockerfile to build from"),
    ("an image from elsewhere", lambda s: s["page"].pop("pull_policy"), "page: it would look for llm-do-temporal:"),
    ("any version", lambda s: s["blobs"].update(image="versity/versitygw:latest"), "has no version"),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("change", "said"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
def test_what_is_not_there_is_found(compose: Compose, change: Change, said: str) -> None:
    changed = deepcopy(compose)
    change(changed["services"])
    assert any(said in fault for fault in compose_faults(changed)), compose_faults(changed)


def test_the_database_takes_every_connection_that_the_server_may_open(compose: Compose) -> None:
    (limit,) = re.findall(r"max_connections=(\d+)", " ".join(compose["services"]["postgresql"]["command"]))
    # For each of its four roles, as the file leaves them alone: SQL_MAX_CONNS and SQL_VIS_MAX_CONNS.
    assert not {"SQL_MAX_CONNS", "SQL_VIS_MAX_CONNS"} & compose["services"]["temporal"]["environment"].keys()
    assert int(limit) > 4 * (20 + 10)


def test_it_stops_where_a_secret_is_missing(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    for name in re.findall(r"^(\w+)=$", text, flags=re.MULTILINE):
        done = config(filled(text).replace(f"{name}=1234", f"{name}="), tmp_path)
        assert done.returncode != 0
        assert f"required variable {name} is missing a value" in done.stderr


def test_without_the_rest_of_the_example_it_is_the_same(compose: Compose, tmp_path: Path) -> None:
    needed = "\n".join(re.findall(r"^\w+=$", EXAMPLE.read_text(), flags=re.MULTILINE))
    assert json.loads(config(filled(needed), tmp_path).stdout) == compose


@pytest.mark.extension("codec_server")
def test_every_port_of_this_machine_can_be_another(compose: Compose, tmp_path: Path) -> None:
    moved = re.sub(r"^(\w+_PORT)=(\d+)$", r"\1=1\2", EXAMPLE.read_text(), flags=re.MULTILINE)
    elsewhere = json.loads(config(filled(moved), tmp_path).stdout)
    before = {port["published"] for one in compose["services"].values() for port in one.get("ports", ())}
    after = {port["published"] for one in elsewhere["services"].values() for port in one.get("ports", ())}
    assert after == {f"1{port}" for port in before}
    # What names an address names the new one.
    assert compose_faults(elsewhere) == []


def test_root_is_refused_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "id").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = ROOT / "worker_service/entrypoint.sh"
    done = subprocess.run([script, "worker"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "does not run as root" in done.stderr
    assert "LLM_DO_UID" in done.stderr


def test_what_the_example_names_is_what_the_file_reads(compose: Compose) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    passed_on = {name for one in yaml.safe_load(text)["services"].values() for name in one.get("environment", ())}
    named = set(re.findall(r"^#?(\w+)=", EXAMPLE.read_text(), flags=re.MULTILINE))
    read = set(re.findall(r"\$\{(\w+)", text))
    assert read <= named
    assert named <= read | passed_on


def test_the_secrets_of_the_documentation_are_what_the_programs_read(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/deploy.md").read_text()
    commands = re.search(r"<!-- secrets -->\n```bash\n(.*?)```", page, re.DOTALL)
    assert commands is not None
    subprocess.run(["bash", "-euc", commands[1]], cwd=tmp_path, check=True)
    folder = tmp_path / "deploy/compose/secrets"
    assert read_keys((folder / "encryption_keys").read_text(), "keys")
    assert len(read_token_file(folder / "page_tokens")) == 1
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}


def test_the_server_is_told_what_the_embedded_one_is_told() -> None:
    command = server_command("127.0.0.1:7233", Path("x.db"), None)
    flags = list(pairwise(command))
    wanted = dict(value.split("=") for flag, value in flags if flag == "--dynamic-config-value")
    # The server does not start where a setting stands twice.
    document, problems = parse_yaml((SCRIPTS / "dynamicconfig.yaml").read_text(), file="dynamicconfig.yaml")
    assert problems == []
    assert {name: json.dumps(values[0]["value"]) for name, values in document.value.items()} == wanted
    created = re.findall(r"--name (\w+) --type (\w+)", (SCRIPTS / "namespace.sh").read_text())
    assert sorted(f"{name}={kind}" for name, kind in created) == sorted(
        value for flag, value in flags if flag == "--search-attribute"
    )


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_the_scripts_are_shell(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.extension("codec_server")
def test_the_codec_server_answers_the_ui(compose: Compose) -> None:
    from llm_do_temporal.extensions.codec_server.server import DEFAULT_ORIGINS

    command = compose["services"]["codec-server"]["command"]
    origins = [part.partition("=")[2] for part in command if part.startswith("--ui-origin=")]
    assert set(origins) <= set(DEFAULT_ORIGINS)
    assert origins == [compose["services"]["temporal-ui"]["environment"]["TEMPORAL_CORS_ORIGINS"]]


@pytest.mark.extension("codec_server")
def test_what_health_checks_ask_for_is_there() -> None:
    from llm_do_temporal.extensions.codec_server.server import build_codec_app

    page = ROOT / "llm_do_temporal/ui" / OPEN_PAGES["ui"].removeprefix("/")
    assert page.is_file()
    routes = build_codec_app(DataConverter.default, TokenAccess({}), (), ("localhost",)).routes
    assert OPEN_PAGES["codec-server"] in [route.path for route in routes if isinstance(route, Route)]


DOCKERFILE = (ROOT / "worker_service/Dockerfile").read_text()


def test_the_image_is_made_of_what_is_there() -> None:
    assert dockerfile_faults(DOCKERFILE) == []


def test_the_images_have_one_version(compose: Compose) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert compose["services"]["worker"]["image"] == f"llm-do-temporal:{version}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("COPY worker_service worker_service", "COPY workers_service worker_service", "there is no workers_service"),
        ("COPY llm_do_temporal llm_do_temporal", "COPY tests tests", "tests is kept out by the .dockerignore"),
        ("USER 10001:10001", "USER root", "it runs as root"),
        ("USER 10001:10001\n", "", "it runs as root"),
        ('"entrypoint.sh"]', '"start.sh"]', "there is no start.sh on its path"),
        ("ARG PYTHON=3.12", "# syntax=docker/dockerfile:1\nARG PYTHON=3.12", "a frontend from a registry"),
        ("LLM_DO_ISOLATION=required", "LLM_DO_ISOLATION=preferred", "commands run beside its keys"),
        ("LLM_DO_ISOLATION=required", "LLM_DO_ISOLATION=never", "'isolation' (LLM_DO_ISOLATION)"),
        ('ENTRYPOINT ["tini", "--", ', "ENTRYPOINT [", "what commands leave behind"),
        ('CMD ["worker"]', 'CMD ["serve"]', "Unknown command"),
        ("127.0.0.1:8080/readyz", "127.0.0.1:8081/readyz", "asked for at http://127.0.0.1:8081/readyz"),
        ("127.0.0.1:8080/readyz", "127.0.0.1:8080/healthz", "asked for at http://127.0.0.1:8080/healthz"),
        ("LLM_DO_LISTEN=", "LLM_DO_LISTEN_AT=", "nobody reads the variable LLM_DO_LISTEN_AT"),
        ("LLM_DO_HEALTH_PORT=8080", "LLM_DO_HEALTH_PORT=eighty", "'health_port' (LLM_DO_HEALTH_PORT)"),
        ("EXPOSE 8080 9464", "EXPOSE 8080", "EXPOSE does not name the ports 8080 and 9464"),
        ("requirements/service.txt", "requirements/services.txt", "there is no requirements/services.txt"),
        ("install --require-hashes --no-deps --only", "install --no-deps --only", "what nobody has looked at"),
        ("ARG PYTHON=3.12", "ARG PYTHON=3.9", "Python 3.9 is too old"),
    ],
)
def test_what_is_wrong_with_an_image_is_found(old: str, new: str, said: str) -> None:
    assert old in DOCKERFILE
    assert any(said in fault for fault in dockerfile_faults(DOCKERFILE.replace(old, new)))
