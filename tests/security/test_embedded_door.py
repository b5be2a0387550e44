"""The embedded server: no page in a browser reaches it, whatever port and name it knows; and what shows its UI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from starlette.requests import Request
from starlette.responses import Response

from llm_do_temporal.ui.http_server import own_hosts
from llm_do_temporal.ui.temporal_ui import MAX_PROXIED_BYTES, build_ui_app
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers.embedded import HELD, Embedded, approving, embedded, starting
from tests.support.servers.sockets import ask, request, serving, status_of


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """One server for this module."""
    async with embedded(tmp_path_factory.mktemp("embedded")) as running:
        yield running


NAMES = (
    *("{host}:{port}", "localhost:{port}", "localhost", "evil.example", "evil.example:{port}", "", "*", "0.0.0.0"),
    *("[::1]:{port}", "127.0.0.1.:{port}", "nobody.invalid", "no%20host", "nohost", "no+host", "no host", "no\thost"),
    *("evil.example no host", "host", "no", ".*", "{host}:7233", "user@{host}:{port}"),
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("what", ["start", "approve"])
async def test_no_port_of_the_server_takes_requests_of_pages(running: Embedded, name: str, what: str) -> None:
    path, body = starting("started-by-a-page") if what == "start" else approving()
    kind = ("Content-Type", "text/plain")

    async def asked(host: str, port: int) -> int:
        given = ("Host", name.format(host=host, port=port))
        return status_of(await ask(port, request("POST", path, given, kind, body=body), host))

    assert 200 not in await asyncio.gather(*(asked(*place) for place in running.places))
    assert await running.what_happened() == []


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data", ""])
@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "post"])
async def test_no_kind_of_request_is_taken(running: Embedded, method: str, kind: str) -> None:
    path, body = starting("started-by-a-page")

    async def asked(host: str, port: int) -> None:
        sent = request(method, path, ("Host", f"{host}:{port}"), ("Content-Type", kind), body=body)
        await ask(port, sent, host)

    await asyncio.gather(*(asked(*place) for place in running.places))
    assert await running.what_happened() == []


@pytest.mark.parametrize(
    "path",
    ["/api/v1/namespaces", "/api/v1/cluster-info", "/cluster/namespaces", "/api/v1/namespaces/default/workflows"],
)
async def test_the_http_api_tells_nothing(running: Embedded, path: str) -> None:
    hidden = int(running.hidden_ui.partition(":")[2])
    for host, port in running.places:
        if port != hidden:
            answer = await ask(port, request("GET", path, ("Host", f"{host}:{port}")), host)
            assert status_of(answer) != 200


@pytest.mark.control
async def test_the_ui_is_shown_and_works(running: Embedded) -> None:
    async with httpx2.AsyncClient(base_url=f"http://{running.hidden_ui}", timeout=PATIENCE_SECONDS) as inner:
        app = build_ui_app(inner, ("localhost:1",))
        outer = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=outer, base_url="http://localhost:1") as browser:
            page = await browser.get("/namespaces/default/workflows")
            assert (page.status_code, "<!doctype html>" in page.text) == (200, True)
            # The server lists a workflow a moment after it was started.
            while HELD not in (listed := await browser.get("/api/v1/namespaces/default/workflows")).text:
                assert listed.status_code == 200


# What stands in front of the UI.


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shown() -> AsyncIterator[tuple[int, list[str]]]:
    """The port of the proxy, and what reached the UI behind it."""
    reached: list[str] = []

    async def behind(scope: object, receive: object, send: object) -> None:
        asked = Request(scope, receive)  # pyright: ignore[reportArgumentType]
        reached.append(f"{asked.method} {asked.url}")
        await Response("reached")(scope, receive, send)  # pyright: ignore[reportArgumentType]

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=behind), base_url="http://inner") as inner:
        hosts = own_hosts("127.0.0.1", 8233)
        async with serving(build_ui_app(inner, hosts)) as port:
            yield port, reached


OWN = ("Host", "127.0.0.1:8233")
OURS = ("Origin", "http://127.0.0.1:8233")


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8233", "127.0.0.1", "localhost", "127.0.0.1:7233", "", "0.0.0.0:8233", "*"),
        *("127.0.0.1.:8233", "127.1:8233", "localhost.:8233", "localhost.evil.example:8233", "x@localhost:8233"),
        *("[::ffff:7f00:1]:8233", "127.0.0.1:8233,evil.example", "127.0.0.1:8233 evil", "127.0.0.2:8233"),
    ],
)
async def test_the_ui_is_not_shown_under_another_name(shown: tuple[int, list[str]], host: str) -> None:
    port, reached = shown
    answer = await ask(port, request("GET", "/api/v1/namespaces", ("Host", host), OURS))
    assert (status_of(answer) in (400, 421), reached) == (True, [])


@pytest.mark.parametrize(
    "origin",
    [
        *(
            None,
            "null",
            "",
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:8234",
            "http://localhost:8233",
        ),
        *("http://127.0.0.1:8233.evil.example", "http://evil.example:8233", "file://", "http://x@127.0.0.1:8233"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_other_pages_change_nothing_in_the_ui(
    shown: tuple[int, list[str]], method: str, origin: str | None
) -> None:
    port, reached = shown
    headers = (OWN, *([] if origin is None else [("Origin", origin)]), ("X-CSRF-Token", "x"))
    answer = await ask(port, request(method, "/api/v1/namespaces/default/workflows/w", *headers, body=b"{}"))
    assert (status_of(answer), reached) == (403, [])


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("mode", "dest"), [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("", "")])
async def test_other_pages_read_nothing_in_the_ui(
    shown: tuple[int, list[str]], site: str, mode: str, dest: str
) -> None:
    port, reached = shown
    said = (("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest))
    answer = await ask(port, request("GET", "/api/v1/namespaces", OWN, *said))
    assert (status_of(answer), reached) == (403, [])


@pytest.mark.parametrize(
    ("method", "target"),
    [
        *(("GET", "@evil.example/"), ("GET", ":80@evil.example/"), ("GET", "http://evil.example/"), ("GET", "*")),
        *(("CONNECT", "evil.example:80"), ("GET", ".evil.example/"), ("GET", "x://y"), ("OPTIONS", "*")),
    ],
)
async def test_what_shows_the_ui_asks_nobody_else(shown: tuple[int, list[str]], method: str, target: str) -> None:
    port, reached = shown
    answer = await ask(port, request(method, target, OWN, OURS))
    assert (status_of(answer) in (400, 404, 405), reached) == (True, [])


async def test_too_much_is_not_passed_on(shown: tuple[int, list[str]]) -> None:
    port, reached = shown
    answer = await ask(port, request("POST", "/x", OWN, OURS, body=b"x" * (MAX_PROXIED_BYTES + 1)))
    assert (status_of(answer) in (0, 413), reached) == (True, [])


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "/http://evil.example/", "/..//evil.example/"])
async def test_a_path_that_looks_like_a_host_stays_a_path(path: str) -> None:
    reached: list[str] = []

    def behind(asked: httpx2.Request) -> httpx2.Response:
        reached.append(asked.url.host)
        return httpx2.Response(200)

    transport = httpx2.MockTransport(behind)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://inner") as inner,
        serving(build_ui_app(inner, ("x:1",))) as port,
    ):
        await ask(port, request("GET", path, ("Host", "x:1")))
    assert set(reached) <= {"inner"}


@pytest.mark.control
async def test_a_page_of_the_ui_is_passed_on(shown: tuple[int, list[str]]) -> None:
    port, reached = shown
    try:
        for host in ("127.0.0.1:8233", "localhost:8233", "[::1]:8233"):
            own = (("Host", host), ("Origin", f"http://{host}"))
            assert status_of(await ask(port, request("POST", "/x", *own, body=b"{}"))) == 200
        assert reached
    finally:
        reached.clear()
