"""`codec-server`: showing encrypted values in the Temporal UI and CLI."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError
from llm_do_temporal.signals import leave_when_told

if TYPE_CHECKING:
    from temporalio.converter import DataConverter

DEFAULT_PORT = 8235
_WHAT = "the codec server"
_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


async def codec_server(
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token_file: Path | None = None,
    trusted_header: str | None = None,
    trusted_proxy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    ui_origin: Annotated[tuple[str, ...], Parameter(negative_iterable=())] = (),
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Serve the keys of this environment to the Temporal UI and CLI, for people who may see values, until Ctrl-C.

    Big values are shown where the workshop is known, whose blob store has them.

    Parameters
    ----------
    host
        Address to listen at. Beyond this machine a token file or a proxy must say who people are.
    port
        Port to listen at; 8235 by default.
    token_file
        Who may see values: a file with lines `name: token`. On this machine, without it, a token is made up and shown.
    trusted_header
        Header in which a proxy names the user, like X-Forwarded-User.
    trusted_proxy
        IP address of that proxy; the header counts from nobody else. May be given several times.
    allowed_host
        Name by which it is called, where that is not the address listened at. May be given several times.
    ui_origin
        Where the Temporal UI is, like https://temporal.example.com; repeat it for more; default: http://localhost:8233.
    """
    leave_when_told()
    from llm_do_temporal.extensions.codec_server.server import DEFAULT_ORIGINS, build_codec_app
    from llm_do_temporal.ui.access import Admission, admitted
    from llm_do_temporal.ui.http_server import HttpServer, check_names, listen, own_hosts, shown_address

    converter = _converter(location)
    access, token = admitted(Admission(token_file, trusted_header, trusted_proxy), host, what=_WHAT)
    origins = tuple(_origin(one) for one in ui_origin) or DEFAULT_ORIGINS
    check_names(host, allowed_host, what=_WHAT)
    listening = listen(host, port, what=_WHAT)
    hosts = own_hosts(host, int(listening.getsockname()[1]), *allowed_host)
    server = HttpServer(build_codec_app(converter, access, origins, hosts))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
    sign_in = "" if trusted_header else "  (sign in with a browser at /sign-in)"
    say(f"codec server  {shown_address(host, listening.getsockname()[1])}{sign_in}")
    say(f"UI            {', '.join(origins)}")
    if token is not None:
        say(f"token         {token}")
    await server.serve(sockets=[listening])
    return 0


def _converter(location: Location) -> DataConverter:
    """Return the converter that opens values, big ones too in a known workshop. Raises UsageError without a key."""
    from temporalio.contrib.pydantic import pydantic_data_converter

    from llm_do_temporal.encryption.codec import encrypting
    from llm_do_temporal.encryption.keys import KEY_FILE_VARIABLE, KEYS_VARIABLE, key_ring
    from llm_do_temporal.storage.external_storage import keeping_big_payloads
    from llm_do_temporal.storage.places import workshop_blobs

    ring = key_ring()
    if ring.first is None:
        raise UsageError(f"there is no key to decode with; set {KEYS_VARIABLE} or {KEY_FILE_VARIABLE}")
    converter = encrypting(pydantic_data_converter, ring)
    folder = location.local_workshop()
    return converter if folder is None else keeping_big_payloads(converter, workshop_blobs(folder, ring))


def _origin(text: str) -> str:
    """Return an origin as browsers write it: in small letters, without the default port. Raises UsageError."""
    origin = text.rstrip("/").lower()
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        raise UsageError(f"--ui-origin '{text}' is not like https://temporal.example.com")
    return origin.removesuffix(":443" if found[1] == "https" else ":80")
