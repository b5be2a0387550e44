"""What is wrong with the Dockerfile, held against the project it is built from."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.shell import Isolation
from tests.support.deploy.programs import (
    HEALTH_PATHS,
    ROOT,
    VARIABLES,
    Instruction,
    command_faults,
    final_stage,
    image_variables,
    read_dockerfile,
)
from worker_service.settings import Settings, read_settings

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def dockerfile_faults(text: str) -> list[str]:
    """Everything that is wrong."""
    instructions = read_dockerfile(text)
    final = final_stage(instructions)
    return [
        *_frontend_faults(text),
        *_copy_faults(instructions),
        *_install_faults(text),
        *_start_faults(final),
        *_setting_faults(final),
    ]


def _frontend_faults(text: str) -> Iterator[str]:
    """A frontend that is named is fetched from its registry, before anything is built."""
    if re.search(r"^#\s*syntax=", text, re.MULTILINE | re.IGNORECASE):
        yield "it is built with a frontend from a registry"


def _copy_faults(instructions: list[Instruction]) -> Iterator[str]:
    ignored = (ROOT / "worker_service/Dockerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    for one in instructions:
        sources = one.text.split()[:-1]
        if one.name != "COPY" or sources[0].startswith("--from="):
            continue
        for source in sources:
            if not (ROOT / source).exists():
                yield f"there is no {source}"
            elif not any(Path(source).is_relative_to(one) for one in kept):
                yield f"{source} is kept out by the .dockerignore"


def _install_faults(text: str) -> Iterator[str]:
    for listed in re.findall(r"--requirement (\S+)", text):
        if not (ROOT / listed).exists():
            yield f"there is no {listed}"
    for command in re.findall(r"pip (?:--python \S+ )?install (?:[^&]*)", text):
        if "--require-hashes" not in command and "--no-deps /tmp/wheels/" not in command:
            yield f"it installs what nobody has looked at: {command.split(chr(10))[0]}"
    oldest = tuple(int(part) for part in re.findall(r"\d+", _PROJECT["requires-python"])[:2])
    for version in re.findall(r"ARG PYTHON=(\S+)", text):
        if tuple(int(part) for part in version.split(".")[:2]) < oldest:
            yield f"Python {version} is too old"


def _start_faults(final: list[Instruction]) -> Iterator[str]:
    last = {one.name: one.text for one in final}
    if last.get("USER", "root").split(":")[0] in ("root", "0"):
        yield "it runs as root"
    *before, script = json.loads(last["ENTRYPOINT"])
    if before != ["tini", "--"]:
        yield "nobody takes in what commands leave behind"
    path = ROOT / "worker_service" / script
    if f"COPY worker_service/{script} /opt/llm-do/bin/{script}" not in [f"{one.name} {one.text}" for one in final]:
        yield f"there is no {script} on its path"
    elif not path.stat().st_mode & 0o111:
        yield f"{script} cannot be executed"
    elif f'exec {next(iter(_PROJECT["scripts"]))} "$@"' not in path.read_text():
        yield f"{script} does not become our program"
    yield from command_faults(json.loads(last["CMD"]))


def _setting_faults(final: list[Instruction]) -> Iterator[str]:
    variables = image_variables(final)
    yield from (f"nobody reads the variable {name}" for name in variables if name not in VARIABLES)
    settings = Settings()
    try:
        with patch.dict("os.environ", {name: value for name, value in variables.items() if name.startswith("LLM_DO_")}):
            settings = read_settings()
    except UsageError as error:
        yield str(error)
    if settings.isolation is not Isolation.REQUIRED:
        yield "commands run beside its keys where they cannot be isolated"
    last = {one.name: one.text for one in final}
    for url in re.findall(r"http://[^']+", last["HEALTHCHECK"]):
        # That the process lives is not what others wait for: it may have no connection.
        if url != f"http://127.0.0.1:{settings.health_port}{HEALTH_PATHS[1]}":
            yield f"its health is asked for at {url}"
    if last["EXPOSE"].split() != [str(settings.health_port), str(settings.metrics_port)]:
        yield f"EXPOSE does not name the ports {settings.health_port} and {settings.metrics_port}"
