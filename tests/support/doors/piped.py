"""A door's process at its pipes, and a client that may send anything."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

_MOST_BYTES = 1 << 26


@dataclass
class Piped:
    """Process of a door, started by a client."""

    process: asyncio.subprocess.Process
    errors: IO[bytes]
    """File of its standard error."""
    lines: list[bytes] = field(default_factory=list[bytes])
    """All lines that it has written."""
    numbers: Any = field(default_factory=lambda: count(1_000))

    async def send(self, line: bytes) -> None:
        await self.send_part(line + b"\n")

    async def send_part(self, part: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(part)
        await self.process.stdin.drain()

    def most_memory_bytes(self) -> int:
        """Return the most memory that the process has had so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    async def say(self, method: str, **params: Any) -> int:
        """Send a request, and return its number."""
        number = next(self.numbers)
        await self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        return number

    async def hear(self) -> dict[str, Any]:
        """Return the next message of the door."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_SECONDS)
        assert line, "the door has ended"
        self.lines.append(line)
        return json.loads(line)

    async def answer(self, number: int) -> dict[str, Any]:
        while True:
            message = await self.hear()
            if message.get("id") == number and "method" not in message:
                return message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its answer."""
        return await self.answer(await self.say(method, **params))

    async def permission(self) -> dict[str, Any]:
        """Return the next request for permission."""
        while True:
            message = await self.hear()
            if message.get("method") == "session/request_permission":
                return message

    async def choose(self, request: Any, outcome: Any) -> None:
        """Answer a request of the door."""
        await self.send(json.dumps({"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}}).encode())

    async def leave(self) -> tuple[int, str]:
        """Close the pipe, and return the exit code and what was written to standard error."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await asyncio.wait_for(self.process.communicate(), PATIENCE_SECONDS)
        assert self.process.returncode is not None
        self.errors.seek(0)
        return self.process.returncode, self.errors.read().decode(errors="replace")


@asynccontextmanager
async def piped(place: Place, *arguments: str, **variables: str) -> AsyncGenerator[Piped]:
    """A door of the place's workshop, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_DO_", "TEMPORAL_"))}
    environment |= {
        "TEMPORAL_ADDRESS": str(place.client.temporal.service_client.config.target_host),
        "TEMPORAL_NAMESPACE": place.client.temporal.namespace,
        "LLM_DO_TASK_QUEUE": place.queue,
        **variables,
    }
    command = [sys.executable, "-m", "llm_do_temporal.cli", *arguments, "--workshop", str(place.folder)]
    pipe = asyncio.subprocess.PIPE
    with TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, limit=_MOST_BYTES
        )
        try:
            yield Piped(process, errors)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
