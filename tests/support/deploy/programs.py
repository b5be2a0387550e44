"""What our own programs take and read: the measure for whatever deploys them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclopts import CycloptsError

from llm_do_temporal.cli.app import app
from llm_do_temporal.environment import KNOWN
from worker_service.settings import BUILD_VARIABLE, DEPLOYMENT_VARIABLE

ROOT = Path(__file__).parents[3]
HEALTH_PATHS = ("/healthz", "/readyz")
OPEN_PAGES = {"ui": "/static/style.css", "codec-server": "/sign-in"}
"""What each answers to somebody who is not signed in."""
_CONNECTION = """
    ADDRESS NAMESPACE API_KEY PROFILE CONFIG_FILE TLS TLS_CLIENT_CERT_PATH TLS_CLIENT_KEY_PATH TLS_SERVER_CA_CERT_PATH
    TLS_SERVER_NAME
"""
_OTHERS = """
    ANTHROPIC_API_KEY OPENAI_API_KEY GOOGLE_API_KEY
    AWS_ENDPOINT_URL AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
    OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_HEADERS OTEL_SERVICE_NAME
    HOME PATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
"""
"""Read by libraries: the models', the object store's, OpenTelemetry's, and Python itself."""
VARIABLES: frozenset[str] = frozenset(
    {
        *KNOWN,
        *(DEPLOYMENT_VARIABLE, BUILD_VARIABLE),
        *(f"TEMPORAL_{name}" for name in _CONNECTION.split()),
        *_OTHERS.split(),
    }
)


def command_faults(command: list[str]) -> Iterator[str]:
    """What is wrong with the arguments of `llm-do-temporal`."""
    try:
        app.parse_args(command, print_error=False, exit_on_error=False)
    except (CycloptsError, SystemExit) as error:
        yield f"`llm-do-temporal {' '.join(command)}`: {error}"


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile, continuations joined."""

    name: str
    text: str


def read_dockerfile(text: str) -> list[Instruction]:
    """The instructions in the text of a Dockerfile, without comments."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    pairs = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [Instruction(name.upper(), text) for name, text in pairs]


def final_stage(instructions: list[Instruction]) -> list[Instruction]:
    """The instructions of the image that is kept."""
    begin = max(number for number, one in enumerate(instructions) if one.name == "FROM")
    return instructions[begin:]


def image_variables(instructions: list[Instruction]) -> dict[str, str]:
    texts = " ".join(one.text for one in instructions if one.name == "ENV")
    return dict(pair.split("=", 1) for pair in texts.split())
