"""Bodies of requests, of which no more is read than is allowed. Used by the page and by the HTTP door."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


def limited(receive: Receive, most: int) -> Receive:
    """Return `receive` with a limit of `most` bytes for the body. Raises HTTPException past it."""
    received = 0

    async def read() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise HTTPException(413, f"More than {most >> 10:,} KiB were sent; that is too much.")
        return message

    return read
