"""What is wrong with a compose file, held against what the programs and images in it really have.

Takes the file as `docker compose config` writes it: anchors, short forms and variables resolved.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.deploy.images import IMAGES, Image
from tests.support.deploy.programs import (
    HEALTH_PATHS,
    OPEN_PAGES,
    ROOT,
    VARIABLES,
    command_faults,
    final_stage,
    image_variables,
    read_dockerfile,
)

Service = dict[str, Any]
Compose = dict[str, Any]
_ADDRESS = re.compile(r"(?:https?://)?([A-Za-z0-9.-]+):(\d{2,5})(/\S*)?")
_HERE = ("localhost", "127.0.0.1")
_ISOLATING = frozenset({"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"})
"""Without these bubblewrap makes no namespace, or cannot mount in it."""
_WORKSHOP = "/workshop"
_DOCKERFILE = final_stage(read_dockerfile((ROOT / "worker_service/Dockerfile").read_text()))
_BUILT_IN = image_variables(_DOCKERFILE)


def compose_faults(compose: Compose) -> list[str]:
    """Everything that is wrong."""
    services: dict[str, Service] = compose["services"]
    faults = [f"{name}: {fault}" for name, one in services.items() for fault in _service_faults(one, name, compose)]
    faults += [*_published_faults(services), *_build_faults(services)]
    used = {mount["source"] for one in services.values() for mount in _items(one, "volumes") if _is_named(mount)}
    faults += [f"volume '{name}' is used by nobody" for name in compose.get("volumes", {}) if name not in used]
    return faults


def listening_ports(service: Service) -> set[int]:
    variables = _variables(service)
    found = set(_known(service).ports) if not _is_ours(service) else set[int]()
    named = [variables.get(name, "") for name in ("PROMETHEUS_ENDPOINT", "VGW_PORT", "TEMPORAL_UI_PORT")]
    if _is_ours(service):
        command = _command(service)
        named += (
            [variables["LLM_DO_HEALTH_PORT"], variables["LLM_DO_METRICS_PORT"]] if command[:1] == ["worker"] else []
        )
        named += [part.partition("=")[2] for part in command if part.startswith("--port=")]
    return found | {int(port) for text in named if (port := text.rpartition(":")[2])}


def _service_faults(service: Service, name: str, compose: Compose) -> Iterator[str]:
    yield from _variable_faults(service)
    yield from _command_faults(service)
    yield from _mount_faults(service, compose)
    yield from _order_faults(service, compose["services"])
    yield from _health_faults(service)
    yield from _address_faults(service, compose["services"])
    yield from _safety_faults(service, name)
    yield from _bound_faults(service)


def _variable_faults(service: Service) -> Iterator[str]:
    known = VARIABLES if _is_ours(service) else frozenset(_known(service).variables.split())
    for name in _mapping(service, "environment"):
        if name not in known:
            yield f"nobody reads the variable {name}"


def _command_faults(service: Service) -> Iterator[str]:
    command = _command(service)
    if _is_ours(service):
        yield from command_faults(command)
        return
    options = _known(service).options
    for part in command:
        if part.partition("=")[0] not in options:
            yield f"its program does not take '{part}'"
    entry: list[str] = service.get("entrypoint") or []
    if entry and entry[0] not in _known(service).programs:
        yield f"its image has no {entry[0]}"
    for script in entry[1:]:
        if _on_host(service, script) is None:
            yield f"there is no {script}"


def _mount_faults(service: Service, compose: Compose) -> Iterator[str]:
    for mount in _items(service, "volumes"):
        source, target = mount["source"], mount["target"]
        if _is_named(mount):
            if source not in compose.get("volumes", {}):
                yield f"there is no volume '{source}'"
        elif not Path(source).exists():
            yield f"there is no {source}"
        if target not in ((_WORKSHOP,) if _is_ours(service) else _known(service).places):
            yield f"its program never looks at {target}"
    for secret in _items(service, "secrets"):
        if secret["source"] not in compose.get("secrets", {}):
            yield f"there is no secret '{secret['source']}'"
    given = {secret["target"] for secret in _items(service, "secrets")}
    said = " ".join([*_command(service), *_variables(service).values()])
    for path in set(re.findall(r"/run/secrets/\w+", said)) - given:
        yield f"it is not given {path}"
    for path in given - set(re.findall(r"/run/secrets/\w+", said)):
        yield f"it is given {path} and does not look at it"


def _order_faults(service: Service, services: dict[str, Service]) -> Iterator[str]:
    for name, wanted in _mapping(service, "depends_on").items():
        other = services.get(name)
        if other is None:
            yield f"it waits for '{name}', which there is not"
        elif wanted["condition"] == "service_healthy" and not (_is_built_in(other) or other.get("healthcheck")):
            yield f"it waits until '{name}' is healthy, which nobody asks"
        elif wanted["condition"] == "service_completed_successfully" and other.get("restart") == "unless-stopped":
            yield f"it waits for the end of '{name}', which never ends"


def _health_faults(service: Service) -> Iterator[str]:
    check = service.get("healthcheck")
    if check is None:
        if _is_ours(service) and not _is_built_in(service):
            yield "it is asked for its health at the port of another command"
        return
    kind, program, *arguments = check["test"]
    if kind != "CMD" or program not in (("python",) if _is_ours(service) else _known(service).programs):
        yield f"its image has no {program}"
    if "localhost" in " ".join(arguments):
        yield "its health is asked for at localhost, which may be ::1, where it does not listen"
    for _, port, path in _ADDRESS.findall(" ".join(arguments)):
        if int(port) not in listening_ports(service):
            yield f"its health is asked for at port {port}, where it does not listen"
        if _is_ours(service) and path.rstrip("',") not in (OPEN_PAGES.get(_command(service)[0]), *HEALTH_PATHS):
            yield f"its health is asked for at {path}, which is not open to all"


def _address_faults(service: Service, services: dict[str, Service]) -> Iterator[str]:
    """Addresses in variables and arguments: other services, or what this machine's browser and shell reach."""
    published = {int(port["published"]) for one in services.values() for port in _items(one, "ports")}
    for text in [*_command(service), *_variables(service).values()]:
        for host, port, _ in _ADDRESS.findall(text):
            if host in _HERE and int(port) not in published:
                yield f"nothing is published at '{text}'"
            elif host in services and int(port) not in listening_ports(services[host]):
                yield f"'{host}' does not listen at '{text}'"
            elif host not in services and host not in (*_HERE, "0.0.0.0"):
                yield f"there is no '{host}' for '{text}'"


def _safety_faults(service: Service, name: str) -> Iterator[str]:
    if service["image"].endswith((":latest", "auto-setup")) or ":" not in service["image"]:
        yield f"the image {service['image']} has no version"
    if not _is_ours(service):
        return
    if not (service.get("read_only") and service.get("cap_drop") == ["ALL"]):
        yield "its root filesystem is not read-only, or it keeps capabilities"
    if service.get("user", "0").split(":")[0] in ("0", "root"):
        yield "it runs as root"
    if "no-new-privileges:true" not in service.get("security_opt", ()):
        yield "its programs may get more rights than it has"
    if name == "worker":
        if not set(service["security_opt"]) >= _ISOLATING:
            yield "it cannot isolate the commands of workers"
        grace = float(str(service.get("stop_grace_period", "10s")).removesuffix("s"))
        if grace <= float(_variables(service).get("LLM_DO_GRACEFUL_SHUTDOWN_SECONDS", 30)):
            yield "it is killed before it has finished what is under way"


def _bound_faults(service: Service) -> Iterator[str]:
    """Disk, memory and processes of the machine that a container could use up."""
    if not service.get("logging", {}).get("options", {}).get("max-size"):
        yield "its log has no bound"
    if not _is_ours(service):
        return
    if not all("size=" in place for place in service.get("tmpfs", ())) or not service.get("tmpfs"):
        yield "its /tmp has no bound, or none of its own"
    if not service.get("pids_limit"):
        yield "it may start any number of processes"


def _published_faults(services: dict[str, Service]) -> Iterator[str]:
    published = [(name, port) for name, one in services.items() for port in _items(one, "ports")]
    for port, count in Counter(str(port["published"]) for _, port in published).items():
        if count > 1:
            yield f"port {port} is published {count} times"
    for name, port in published:
        if port.get("host_ip") != "127.0.0.1":
            yield f"{name}: port {port['published']} is open to other machines"
        if port["target"] not in listening_ports(services[name]):
            yield f"{name}: it does not listen at port {port['target']}, which is published"


def _build_faults(services: dict[str, Service]) -> Iterator[str]:
    """The image of ours is made by one service: two that make one tag at the same time get in each other's way."""
    for name, one in services.items():
        if _is_ours(one) and one.get("pull_policy") != "never":
            yield f"{name}: it would look for {one['image']} elsewhere"
    builds = [one["build"] for one in services.values() if "build" in one]
    if len(builds) != 1:
        yield f"{len(builds)} services build the image"
    for build in builds:
        if not (Path(build["context"]) / build["dockerfile"]).is_file():
            yield f"there is no {build['dockerfile']} to build from"


def _items(service: Service, key: str) -> list[dict[str, Any]]:
    return service.get(key) or []


def _mapping(service: Service, key: str) -> dict[str, Any]:
    return service.get(key) or {}


def _is_named(mount: dict[str, Any]) -> bool:
    return mount["type"] == "volume"


def _is_ours(service: Service) -> bool:
    return service["image"].partition(":")[0] == "llm-do-temporal"


def _is_built_in(service: Service) -> bool:
    """Whether the health check of our image is about what this service runs."""
    return _is_ours(service) and _command(service)[:1] == ["worker"]


def _known(service: Service) -> Image:
    return IMAGES[service["image"].rpartition(":")[0]]


def _command(service: Service) -> list[str]:
    return list(service.get("command") or [])


def _variables(service: Service) -> dict[str, str]:
    own = {name: value or "" for name, value in _mapping(service, "environment").items()}
    return (_BUILT_IN | own) if _is_ours(service) else own


def _on_host(service: Service, path: str) -> Path | None:
    """The file that a path in the container is; None where it is none of the mounted ones."""
    for mount in _items(service, "volumes"):
        if path.startswith(mount["target"] + "/"):
            found = Path(mount["source"]) / path.removeprefix(mount["target"] + "/")
            return found if found.is_file() else None
    return None
