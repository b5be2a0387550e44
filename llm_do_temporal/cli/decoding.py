"""`codec-server`: showing encrypted values in the Temporal UI and CLI."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.plain_text import say
from llm_do_temporal.errors import UsageError

_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


async def codec_server(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token_file: Path | None = None,
    ui_origin: Annotated[tuple[str, ...], Parameter(negative_iterable=())] = (),
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Serve the keys of this environment to the Temporal UI and CLI, for people with a token, until Ctrl-C.

    Big values are shown where the workshop is known, whose blob store has them.

    Parameters
    ----------
    host
        Address to listen at; anything but this machine's own needs --token-file.
    port
        Port to listen at; 8235 by default.
    token_file
        Who may see values: lines `name: token`. Without it a token is made up and shown.
    ui_origin
        Where the Temporal UI is, like https://temporal.example.com; repeat it for more; default: http://localhost:8233.
    """
    from temporalio.contrib.pydantic import pydantic_data_converter

    from llm_do_temporal.big_payloads import keeping_big_payloads
    from llm_do_temporal.blob_places import workshop_blobs
    from llm_do_temporal.codec_server import DEFAULT_ORIGINS, DEFAULT_PORT, build_codec_app
    from llm_do_temporal.encryption.codec import encrypting
    from llm_do_temporal.encryption.keys import KEY_FILE_VARIABLE, KEYS_VARIABLE, key_ring
    from llm_do_temporal.ui.access import TokenAccess
    from llm_do_temporal.ui.listening import HttpServer, listen, shown_address

    ring = key_ring()
    if ring.first is None:
        raise UsageError(f"there is no key to decode with; set {KEYS_VARIABLE} or {KEY_FILE_VARIABLE}")
    tokens = _tokens(token_file, host)
    converter = encrypting(pydantic_data_converter, ring)
    folder = location.local_workshop()
    if folder is not None:
        converter = keeping_big_payloads(converter, workshop_blobs(folder, ring))
    origins = tuple(_origin(one) for one in ui_origin) or DEFAULT_ORIGINS
    server = HttpServer(build_codec_app(converter, TokenAccess(tokens), origins))
    listening = listen(host, DEFAULT_PORT if port is None else port, what="the codec server")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
    say(f"codec server  {shown_address(host, listening.getsockname()[1])}  (sign in with a browser at /sign-in)")
    say(f"UI            {', '.join(origins)}")
    if token_file is None:
        say(f"token         {next(iter(tokens.values()))}")
    await server.serve(sockets=[listening])
    return 0


def _tokens(file: Path | None, host: str) -> dict[str, str]:
    from llm_do_temporal.ui.access import new_token, read_token_file
    from llm_do_temporal.ui.listening import is_loopback

    if file is not None:
        return read_token_file(file)
    if not is_loopback(host):
        raise UsageError(
            f"values would be shown to others at '{host}', and nothing says to whom",
            next_step="Give --token-file FILE, with lines `name: token`.",
        )
    return {"somebody": new_token()}


def _origin(text: str) -> str:
    """The origin as browsers write it: in small letters, and without the port that goes without saying."""
    origin = text.rstrip("/").lower()
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        raise UsageError(f"--ui-origin '{text}' is not like https://temporal.example.com")
    return origin.removesuffix(":443" if found[1] == "https" else ":80")
