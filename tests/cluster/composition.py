"""Settings of docker-compose.yml, as processes of this machine need them.

The file stays the one place for them: what a service is told there, its process is told here, with addresses, ports and
paths of containers exchanged for those of this machine.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.errors import ClusterError
from tests.support.deploy.programs import ROOT, final_stage, image_variables, read_dockerfile

EXAMPLE = ROOT / "deploy/compose/env.example"
_FILE = ROOT / "docker-compose.yml"
_PASSWORDS = ("POSTGRES_PASSWORD", "BLOBS_SECRET_KEY", "GRAFANA_PASSWORD")
_CONTAINER = re.compile(r"0\.0\.0\.0|/run/secrets|/workshop\b|/setup\b|\b(?:temporal|blobs|postgresql):\d+")
"""Names and places that only a container has."""


@dataclass(frozen=True)
class Composition:
    """The compose file with all of its variables resolved."""

    services: Mapping[str, Mapping[str, Any]]

    def version(self, service: str) -> str:
        """The tag of a service's image."""
        return self.services[service]["image"].rpartition(":")[2]

    def environment(self, service: str, changed: Mapping[str, str], exchanged: Mapping[str, str]) -> dict[str, str]:
        """What a service is told; `changed` are other values of some, `exchanged` parts of texts and their successors.

        A variable that the file passes on is the one of this process. Raises ClusterError where the file does not know
        a variable of `changed`, or where something of a container would remain.
        """
        image = built_in_variables() if self.services[service]["image"].startswith("llm-do-temporal:") else {}
        told: dict[str, str | None] = {**image, **self.services[service].get("environment", {})}
        if unknown := changed.keys() - told.keys():
            raise ClusterError(f"'{service}' of docker-compose.yml has no {', '.join(sorted(unknown))} any more")
        given = {name: os.environ.get(name) if value is None else value for name, value in told.items()}
        kept = {name: value for name, value in given.items() if value is not None and name not in changed}
        return {name: _exchange(service, value, exchanged) for name, value in kept.items()} | dict(changed)

    def command(self, service: str, exchanged: Mapping[str, str]) -> list[str]:
        """Its arguments. Raises ClusterError where something of a container would remain."""
        return [_exchange(service, word, exchanged) for word in self.services[service]["command"]]


def read_composition(settings: Path) -> Composition:
    """Read the file with the variables in a file like `.env`, and with none of this shell. Raises ClusterError."""
    program = Path(sys.executable).with_name("docker-compose")
    command = [program, "--env-file", settings, "--file", _FILE, "config", "--format", "json"]
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    try:
        done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ClusterError(f"there is no {program}: run `make setup`, which installs it") from error
    if done.returncode != 0:
        raise ClusterError(f"docker-compose.yml cannot be read: {done.stderr.strip()}")
    return Composition(json.loads(done.stdout)["services"])


def fill_settings(values: Mapping[str, str]) -> str:
    """The text of deploy/compose/env.example with these values in place of its own."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for name, value in values.items():
        text, count = re.subn(rf"^{name}=.*$", lambda _, line=f"{name}={value}": line, text, flags=re.MULTILINE)
        assert count == 1, name
    return text


def make_passwords() -> dict[str, str]:
    """New values for what the example leaves empty, but for whose the files are."""
    return {"BLOBS_ACCESS_KEY": "blobs", **{name: secrets.token_hex(12) for name in _PASSWORDS}}


def built_in_variables() -> dict[str, str]:
    """What our image sets, but for places."""
    found = image_variables(final_stage(read_dockerfile((ROOT / "worker_service/Dockerfile").read_text())))
    return {name: value for name, value in found.items() if name not in ("PATH", "HOME", "PYTHONDONTWRITEBYTECODE")}


def _exchange(service: str, text: str, exchanged: Mapping[str, str]) -> str:
    # In one go: a path of this machine may have in it what is exchanged elsewhere.
    known = re.compile("|".join(re.escape(old) for old in exchanged) or "(?!)")
    if left := _CONTAINER.search(known.sub("", text)):
        raise ClusterError(
            f"'{service}' of docker-compose.yml has '{left[0]}', for which there is nothing here: {text}"
        )
    return known.sub(lambda found: exchanged[found[0]], text)
