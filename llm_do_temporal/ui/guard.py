"""Checks of every request before a page sees it: Host, session, Origin, CSRF token; and headers of every answer.

A form that arrives at a page has been checked; `request.state.form` has it, `request.state.user` its sender.
"""

from __future__ import annotations

import re
import secrets
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_do_temporal.request_bodies import limited
from llm_do_temporal.ui.access import (
    MAX_SIGN_IN_BYTES,
    SECONDS,
    Attempts,
    Caller,
    Visitor,
    is_same_text,
    peer_of,
    set_session,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import place_words
from llm_do_temporal.ui.http_server import PORT, SAFE_METHODS, called_by, is_own_page
from llm_do_temporal.ui.requests import UiSettings, error_page, see_other

SIGN_IN = "/sign-in"
CSRF_FIELD = "csrf"
MAX_BODY_BYTES = 64 << 20
"""Largest request of a user who has signed in."""
MAX_FIELD_BYTES = 4 << 20
"""Largest field that is no file: changed arguments have at most 1 MiB, more if every character is escaped."""
_STATIC = "/static/"
_PLACE = re.compile(r"/(?![/\\])[!-~]*")
"""Path of this page, to which a form may lead after signing in."""


class RequestGuard:
    """ASGI middleware; all pages below it may trust `request.state`."""

    def __init__(self, app: ASGIApp, settings: UiSettings) -> None:
        self._app = app
        self._settings = settings
        self._attempts = Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        # In a link or a redirect, two slashes in front would name another host.
        scope["path"] = "/" + scope["path"].lstrip("/\\")
        most = MAX_SIGN_IN_BYTES if scope["path"] == SIGN_IN else MAX_BODY_BYTES
        request = Request(scope, limited(receive, most))
        send = _with_headers(send, nonce)
        try:
            await self._answer(request, send)
        except HTTPException as error:
            await _refused(request, error.status_code, error.detail)(scope, receive, send)

    async def _answer(self, request: Request, send: Send) -> None:
        scope, receive = request.scope, request.receive
        request.state.user = request.state.csrf = ""
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        # The path as the routes see it: the one of `request.url` is read out of an address that has the Host in it.
        path, is_form = scope["path"], request.method not in SAFE_METHODS
        if path.startswith(_STATIC):
            await self._app(scope, receive, send)
            return
        if path == SIGN_IN or ("token" in request.query_params and not is_form):
            await (await self._sign_in(request))(scope, receive, send)
            return
        visitor = self._visitor(request)
        if visitor is None:
            await _sign_in_page(request)(scope, receive, send)
            return
        request.state.user, request.state.csrf = visitor.user, visitor.csrf
        if is_form:
            await self._take_form(request, visitor, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request with a wrong Host or Origin; None if it may go on."""
        host = called_by(request.headers, self._settings.hosts)
        if host is None:
            return _refused(request, 421, "This page does not answer under the name it was called by.")
        if request.method not in SAFE_METHODS and not is_own_page(request.headers, host):
            return _refused(request, 403, "This was not sent from a page of this address.")
        return None

    def _visitor(self, request: Request) -> Visitor | None:
        cookie = request.cookies.get(cookie_name(request))
        return self._settings.access.visitor(Caller(peer_of(request), request.headers, cookie))

    async def _sign_in(self, request: Request) -> Response:
        """Change a token for a cookie: at `/sign-in`, or at any address for a link that carries a token."""
        if request.method in SAFE_METHODS:
            token, target, csrf = request.query_params.get("token", "").strip(), _without_token(request), ""
            if token and not _is_typed(request):
                # Looked at only after a person confirms: else any page could sign its visitors in, or try tokens.
                return _ask(request, token, target)
        else:
            form = await _read_form(request)
            token, target, csrf = (_text(form.get(name)) for name in ("token", "to", CSRF_FIELD))
            token, target = token.strip(), target if _PLACE.fullmatch(target) else "/"
        if not token:
            return _sign_in_page(request)
        if not self._attempts.may_try(peer_of(request)):
            return _too_many(request)
        return self._signed_in(request, token, target, csrf)

    def _signed_in(self, request: Request, token: str, target: str, csrf: str) -> Response:
        """Answer the sender of a token. A session of another user ends only if a form of that session says so."""
        user, visitor = self._settings.access.owner(token), self._visitor(request)
        cookie = self._settings.access.open_session(token)
        if user is None or cookie is None:
            self._attempts.was_wrong(peer_of(request))
            return _sign_in_page(request, wrong=True, to=target) if visitor is None else _redirect(target)
        self._attempts.was_right(peer_of(request))
        if visitor is not None and visitor.user != user and not is_same_text(csrf, visitor.csrf):
            return _ask(request, token, target, visitor=visitor, becoming=user)
        response = _redirect(target)
        set_session(request, response, cookie_name(request), cookie)
        return response

    async def _take_form(self, request: Request, visitor: Visitor, send: Send) -> None:
        form = await _read_form(request)
        try:
            request.state.form = form
            given = form.get(CSRF_FIELD)
            if not is_same_text(_text(given), visitor.csrf):
                refused = _refused(request, 403, "This form is not of this session. Open the page again.")
                await refused(request.scope, request.receive, send)
                return
            await self._app(request.scope, request.receive, send)
        finally:
            await form.close()


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie, with the port: else all pages of a machine would share a name."""
    port = PORT.search(request.headers["host"])
    return f"llm-do-{port[1]}" if port else "llm-do"


def _sign_in_page(request: Request, *, wrong: bool = False, to: str | None = None) -> Response:
    """Return the page to sign in, which leads on to the address `to`; None: to the one that was asked for."""
    # A link in a mail or a chat brings no cookie along; following it once more, from here, does.
    again = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
    if to is None:
        to = _without_token(request) if request.method in SAFE_METHODS else "/"
    to = to if _PLACE.fullmatch(to) and to.partition("?")[0] != SIGN_IN else "/"
    way, place = request.app.state.settings.access.way, place_words(to.partition("?")[0])
    return render(request, "sign_in.html", status=401, wrong=wrong, again=again, to=to, way=way, place=place)


def _ask(request: Request, token: str, target: str, *, visitor: Visitor | None = None, becoming: str = "") -> Response:
    """Return a page that asks whether the link was meant. The token has not even been compared yet."""
    return render(
        request,
        "sign_in_asked.html",
        status=401 if visitor is None else 409,
        token=token,
        to=target,
        csrf="" if visitor is None else visitor.csrf,
        instead_of="" if visitor is None else visitor.user,
        becoming=becoming,
    )


def _too_many(request: Request) -> Response:
    message = "Too many tokens that are not known here were tried. No further one is looked at for a minute."
    step, headers = "Whoever is signed in already notices nothing of it.", {"Retry-After": f"{SECONDS:.0f}"}
    return error_page(request, 429, "Wait a minute", message, step, headers=headers)


def _is_typed(request: Request) -> bool:
    """Whether a browser says that no page made it send the request: an address was typed, or clicked in a terminal."""
    return request.method == "GET" and request.headers.getlist("sec-fetch-site") == ["none"]


def _without_token(request: Request) -> str:
    """Return the address of a link without its token."""
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    return quote(request.scope["path"]) + (f"?{urlencode(rest)}" if rest else "")


def _text(value: object) -> str:
    """Return the text of a field; empty for a file and for no field."""
    return value if isinstance(value, str) else ""


def _refused(request: Request, status: int, message: str) -> Response:
    return error_page(request, status, "Refused", message)


def _redirect(target: str) -> Response:
    return see_other("/" if target.partition("?")[0] == SIGN_IN else target)


async def _read_form(request: Request) -> FormData:
    """Return the form of a request. Raises HTTPException."""
    return await request.form(max_part_size=MAX_FIELD_BYTES)


def answer_headers(nonce: str) -> dict[str, str]:
    """Return the headers of every answer, so that no other page can frame, read, cache or run scripts in it."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        # Without any referrer at all a browser would not name the origin of a form, which is checked.
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }


def _with_headers(send: Send, nonce: str) -> Send:
    """Return `send` with the headers of every answer added; a page's own headers stay."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = MutableHeaders(scope=message)
            for name, value in answer_headers(nonce).items():
                given.setdefault(name, value)
        await send(message)

    return sending
