"""The scripted model: one process that speaks chat-completions and does what the plan in the prompt says.

    python -m benchmarks.contenders.model_server

The first line printed is the base URL. It reads as little of a request as it can: the plan, which is in the first
user message, and the newest call of the conversation. asyncio switches Nagle's algorithm off by itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from benchmarks.contenders.plans import MARK, Plan, plan_in

MAX_HEADER_BYTES = 1 << 16
HELD_SECONDS = 3600
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_CALL = b'"call_'
_STREAMED = (b'"stream":true', b'"stream": true')
_PROMPT = re.compile(MARK.encode() + rb'(?:[^"\\]|\\.)*')
_USAGE = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}


class ModelServer:
    """Answers completions, and tells which turns of which jobs were asked when (seconds since the epoch)."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)

    async def serve(self) -> None:
        """Listen on a free port until the process ends."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=MAX_HEADER_BYTES, backlog=1024)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                async for piece in self._answer(head, body):
                    writer.write(piece)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has left
        finally:
            writer.close()

    async def _answer(self, head: bytes, body: bytes) -> AsyncIterator[bytes]:
        _, path, _ = head.split(b" ", 2)
        if not path.startswith(b"/v1/chat/completions"):
            prefix = path.decode().rpartition("=")[2]
            yield _whole({job: asked for job, asked in self._asked.items() if job.startswith(prefix)})
            return
        plan, turn = plan_of(body), turn_of(body)
        first = not any(asked == turn for asked, _ in self._asked[plan.job])
        self._asked[plan.job].append((turn, time.time()))
        if plan.hold == turn and first:
            await asyncio.sleep(HELD_SECONDS)
        if plan.wait:
            await asyncio.sleep(plan.wait)
        message = compose(plan, turn)
        yield _stream(message) if any(mark in body for mark in _STREAMED) else _whole(_completion(message))


def plan_of(body: bytes) -> Plan:
    """The plan in the first message of a request that has one."""
    found = _PROMPT.search(body)
    if found is None:
        raise ValueError("a request without a plan")
    return plan_in(json.loads(b'"' + found[0] + b'"'))


def turn_of(body: bytes) -> int:
    """Which turn is asked: the one after that of the newest call, for older ones may have been left out."""
    _, found, rest = body.rpartition(_CALL)
    return int(rest.partition(b"_")[0]) + 1 if found else 0


def compose(plan: Plan, turn: int) -> dict[str, Any]:
    """The model's message at this turn."""
    calls = [
        {
            "index": number,
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": plan.tool, "arguments": json.dumps(arguments)},
        }
        for number, arguments in enumerate(plan.calls(turn))
    ]
    if calls:
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": f"{plan.job} is done."}


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**_envelope("chat.completion"), "choices": [choice], "usage": _USAGE}


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": int(time.time()), "model": "scripted"}


def _whole(value: dict[str, Any]) -> bytes:
    return _response("application/json", json.dumps(value).encode())


def _stream(message: dict[str, Any]) -> bytes:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    chunk = _envelope("chat.completion.chunk")
    chunks: list[dict[str, Any]] = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**chunk, "choices": [], "usage": _USAGE},
    ]
    lines = [f"data: {json.dumps(one)}\n\n" for one in chunks]
    return _response("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())


def _response(media_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    asyncio.run(ModelServer().serve())
