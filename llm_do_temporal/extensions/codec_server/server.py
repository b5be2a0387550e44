"""The codec server: shows encrypted values to the Temporal UI and CLI of people who may see them.

Speaks Temporal's remote codec protocol: `POST /decode` and `POST /encode` take and return `{"payloads": […]}`. The CLI
sends `Authorization: Bearer TOKEN`; for the UI, which is a page in a browser, `/sign-in` changes the token for a
cookie, as the page does. Connects to no Temporal server, and logs neither tokens nor values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from urllib.parse import parse_qs

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.converter import DataConverter

from llm_do_temporal.client.history.events import NOT_AT_HAND
from llm_do_temporal.encryption.codec import EncryptionCodec
from llm_do_temporal.errors import BlobsUnreachable, KeyMismatch
from llm_do_temporal.ui.access import (
    MAX_SIGN_IN_BYTES,
    SECONDS,
    Access,
    Attempts,
    Caller,
    Visitor,
    peer_of,
    set_session,
)
from llm_do_temporal.ui.http_server import OnlyByName, called_by, is_own_page

DEFAULT_ORIGINS = ("http://localhost:8233", "http://127.0.0.1:8233")
"""Origins of the UI of a development server."""
MAX_PAYLOADS_BYTES = 32 << 20
"""Largest request with payloads to decode."""
_COOKIE = "llm-do-codec"
_SIGN_IN = "/sign-in"
_PAGE = """<!doctype html><meta charset="utf-8"><title>Codec server</title>
<style>body{{font:16px system-ui;max-width:32rem;margin:4rem auto;padding:0 1rem}}</style>
<h1>Codec server</h1><p role="status">{message}</p>
<form method="post" action="/sign-in">
<label>Token <input name="token" type="password" autocomplete="off" required></label>
<button>Sign in</button></form>
"""
_NO_STORE = {"Cache-Control": "no-store"}
_PAGE_HEADERS = _NO_STORE | {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


class CodecServer:
    """Answers the requests of people who may see values."""

    def __init__(self, converter: DataConverter, access: Access, hosts: Collection[str]) -> None:
        """Decode and encode with `converter`, which has big values too if the workshop is at hand.

        `access` knows the people who may ask; `hosts` are the names of the server.
        """
        self._converter = converter
        self._access = access
        self._hosts = hosts
        self._attempts = Attempts()

    async def decode(self, request: Request) -> Response:
        """Open the payloads of a request; a big value that is not at hand stays a reference."""
        return await self._answer(request, self._opened)

    async def encode(self, request: Request) -> Response:
        """Encrypt the payloads of a request."""
        return await self._answer(request, self._encrypted)

    async def show_form(self, request: Request) -> Response:
        """Answer with the page on which a person gives a token."""
        return _page("This browser is signed in." if self._knows(request) else "Sign in to see values in the UI.")

    async def sign_in(self, request: Request) -> Response:
        """Change a token for a cookie."""
        if not is_own_page(request.headers, called_by(request.headers, self._hosts) or ""):
            return _page("This was not sent from a page of this address.", status=403)
        body = await _body(request, MAX_SIGN_IN_BYTES) or b""
        given = parse_qs(body.decode(errors="replace")).get("token", [""])
        session = self._session(request, given[0].strip())
        if session is None:
            return _page("This token is not known here, or too many were tried; wait a minute then.", status=401)
        response = RedirectResponse(_SIGN_IN, status_code=303)
        set_session(request, response, _COOKIE, session)
        return response

    async def _answer(self, request: Request, change: Callable[[Payload], Awaitable[Payload]]) -> Response:
        if not self._attempts.may_try(peer_of(request)) and self._visitor(request) is None:
            return _refused(429, "too many tokens that are not known here were tried; wait a minute", SECONDS)
        if not self._knows(request):
            return _refused(401, "give a token: Authorization: Bearer TOKEN, or sign in at /sign-in of this server")
        body = await _body(request, MAX_PAYLOADS_BYTES)
        if body is None:
            return _refused(413, f"more than {MAX_PAYLOADS_BYTES >> 20} MiB were sent")
        try:
            given = Parse(body, Payloads(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError, RecursionError):
            return _refused(400, 'this is not {"payloads": [{"metadata": {…}, "data": "…"}]}')
        try:
            changed = Payloads(payloads=[await change(payload) for payload in given.payloads])
        except KeyMismatch as error:
            return _refused(422, error.message)
        return Response(MessageToJson(changed, indent=None), media_type="application/json", headers=_NO_STORE)

    async def _opened(self, payload: Payload) -> Payload:
        with suppress(BlobsUnreachable, *NOT_AT_HAND):
            (found,) = await self._converter.decode([payload], [RawValue])
            return found.payload
        return payload

    async def _encrypted(self, payload: Payload) -> Payload:
        codec = self._converter.payload_codec
        if isinstance(codec, EncryptionCodec):
            return codec.encrypted(payload)  # `encode` leaves big ones to the blob store, and these go back to Temporal
        return payload if codec is None else (await codec.encode([payload]))[0]

    def _knows(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._session(request, token.strip()) is not None:
            return True
        return self._visitor(request) is not None

    def _visitor(self, request: Request) -> Visitor | None:
        cookie = request.cookies.get(_COOKIE)
        return self._access.visitor(Caller(peer_of(request), request.headers, cookie))

    def _session(self, request: Request, token: str) -> str | None:
        """Open a session for the owner of a token; None for a wrong token, and after too many wrong ones."""
        if not token or not self._attempts.may_try(peer_of(request)):
            return None
        session = self._access.open_session(token)
        if session is None:
            self._attempts.was_wrong(peer_of(request))
        else:
            self._attempts.was_right(peer_of(request))
        return session


def build_codec_app(
    converter: DataConverter, access: Access, origins: Sequence[str], hosts: Collection[str]
) -> Starlette:
    """Return the codec server as an ASGI application; pages of `origins` may ask it from a browser.

    `hosts` are the names of the server: `name:port`, or `name` for any port.
    """
    server = CodecServer(converter, access, hosts)
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["POST"],
        allow_headers=["authorization", "authorization-extras", "content-type", "x-namespace"],
        allow_credentials=True,
    )
    return Starlette(
        routes=[
            Route("/decode", server.decode, methods=["POST"]),
            Route("/encode", server.encode, methods=["POST"]),
            Route("/", server.show_form, methods=["GET"]),
            Route(_SIGN_IN, server.show_form, methods=["GET"]),
            Route(_SIGN_IN, server.sign_in, methods=["POST"]),
        ],
        middleware=[Middleware(OnlyByName, hosts=hosts), cors],
    )


async def _body(request: Request, most: int) -> bytes | None:
    """Return the body of a request; None if it is longer than `most` bytes."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            return None
    return bytes(data)


def _refused(status: int, message: str, retry_seconds: float | None = None) -> Response:
    headers = _NO_STORE | ({} if retry_seconds is None else {"Retry-After": f"{retry_seconds:.0f}"})
    return JSONResponse({"message": message}, status_code=status, headers=headers)


def _page(message: str, *, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(message=message), status_code=status, headers=_PAGE_HEADERS)
