"""The codec server: by which names it is called, whose forms it takes, and whom it tells what was encrypted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.testclient import TestClient
from temporalio.api.common.v1 import Payloads
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.extensions.codec_server.server import build_codec_app
from llm_do_temporal.ui import access
from llm_do_temporal.ui.access import PER_ADDRESS, TokenAccess
from llm_do_temporal.ui.http_server import own_hosts
from tests.support.servers.sockets import ask, request, serving, status_of

TOKEN = "a-token-of-adas-own"
CONVERTER = encrypting(pydantic_data_converter, KeyRing.of(Key("k", b"k" * 32)))
SECRET = "what-nobody-else-reads"
HOST, UI = "127.0.0.1:8235", "http://localhost:8233"
ACCESS = TokenAccess({"ada": TOKEN})
COOKIE = ("Cookie", f"llm-do-codec={ACCESS.open_session(TOKEN)}")


def codec_app() -> Starlette:
    return build_codec_app(CONVERTER, ACCESS, (UI,), own_hosts("127.0.0.1", 8235, "codec.example.com"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def port() -> AsyncIterator[int]:
    """The codec server at a real port."""
    async with serving(codec_app()) as port:
        yield port


@pytest.fixture
def browser() -> Iterator[TestClient]:
    """A browser at a codec server of its own."""
    with TestClient(codec_app(), base_url=f"http://{HOST}", follow_redirects=False) as client:
        yield client


async def sealed() -> bytes:
    """What a history holds."""
    return json.dumps(MessageToDict(Payloads(payloads=await CONVERTER.encode([SECRET])))).encode()


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8235", "127.0.0.1", "127.0.0.1:8234", "localhost", "", "0.0.0.0:8235", "*"),
        *("127.0.0.1.:8235", "127.1:8235", "x@127.0.0.1:8235", "127.0.0.1:8235.evil.example", "[::ffff:7f00:1]:8235"),
        *("evil.example,127.0.0.1:8235", "codec.example.com.", "x.codec.example.com", "codec.example.com:x", "a b"),
    ],
)
@pytest.mark.parametrize("path", ["/decode", "/sign-in"])
async def test_another_name_is_not_answered(port: int, host: str, path: str) -> None:
    bearer = ("Authorization", f"Bearer {TOKEN}")
    answer = await ask(port, request("POST", path, ("Host", host), COOKIE, bearer, body=await sealed()))
    assert status_of(answer) in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        (("Host", HOST), ("Host", "evil.example")),
        (("Host", "evil.example"), ("Host", HOST)),
        (("Host", "evil.example"), ("X-Forwarded-Host", HOST)),
        (("Host", "evil.example"), ("Origin", UI)),
        (),
    ],
    ids=str,
)
async def test_no_header_replaces_the_name(port: int, headers: tuple[tuple[str, str], ...]) -> None:
    answer = await ask(port, request("POST", "/decode", *headers, COOKIE, body=await sealed()))
    assert status_of(answer) in (400, 421)


@pytest.mark.parametrize(
    "origin",
    [
        *(None, "null", "", "http://evil.example", UI, "http://127.0.0.1", "http://127.0.0.1:8236"),
        *("http://127.0.0.1:8235.evil.example", "http://localhost:8235", "file://", "http://x@127.0.0.1:8235"),
    ],
)
def test_a_form_of_another_page_signs_nobody_in(browser: TestClient, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    answer = browser.post("/sign-in", data={"token": TOKEN}, headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://localhost:8234", "http://localhost", f"{UI}/"]
)
async def test_a_page_of_another_origin_cannot_read_an_answer(browser: TestClient, origin: str) -> None:
    browser.cookies.set("llm-do-codec", cast("str", ACCESS.open_session(TOKEN)))
    answer = browser.post("/decode", content=await sealed(), headers={"origin": origin})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "given",
    [
        *("", "Bearer", "Bearer ", "bearer x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}"),
        *(f"Token {TOKEN}", f"Bearer\t{TOKEN}", TOKEN, f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN},x", "Bearer ['']"),
        "Bearer " + "x" * 20_000,
    ],
    ids=lambda given: given[:30],
)
async def test_nothing_is_told_without_the_token(browser: TestClient, given: str) -> None:
    answer = browser.post("/decode", content=await sealed(), headers={"authorization": given})
    assert answer.status_code == 401
    assert SECRET not in answer.text


@pytest.mark.parametrize("way", ["bearer", "form"])
async def test_after_some_wrong_tokens_not_even_a_right_one_is_looked_at(
    browser: TestClient, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than a minute for so many.
    monkeypatch.setattr(access, "SECONDS", 3_600)
    content = await sealed()

    def tried(token: str) -> int:
        if way == "bearer":
            return browser.post("/decode", content=content, headers={"authorization": f"Bearer {token}"}).status_code
        return browser.post("/sign-in", data={"token": token}, headers={"origin": f"http://{HOST}"}).status_code

    assert {tried(f"wrong-{number}") for number in range(PER_ADDRESS)} == {401}
    assert tried(TOKEN) in (401, 429)
    # Whoever has a session notices nothing.
    browser.cookies.set("llm-do-codec", cast("str", ACCESS.open_session(TOKEN)))
    assert browser.post("/decode", content=content).status_code == 200


@pytest.mark.control
async def test_who_has_the_token_is_told(port: int) -> None:
    for host in (HOST, "localhost:8235", "codec.example.com", "codec.example.com:443"):
        bearer = ("Authorization", f"Bearer {TOKEN}")
        answer = await ask(port, request("POST", "/decode", ("Host", host), bearer, body=await sealed()))
        assert status_of(answer) == 200
