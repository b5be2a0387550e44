"""The codec server: who may ask it, and what it answers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from starlette.testclient import TestClient
from temporalio.api.common.v1 import Payloads
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing, Seal
from llm_do_temporal.extensions.codec_server import server as codec_server
from llm_do_temporal.extensions.codec_server.server import build_codec_app
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.external_storage import REFERENCE_TYPE, keeping_big_payloads
from llm_do_temporal.ui.access import MAX_SIGN_IN_BYTES, Admission, TokenAccess, admitted

RING = KeyRing.of(Key("k", b"k" * 32))
CONVERTER = encrypting(pydantic_data_converter, RING)
TOKEN = "a-token-of-adas-own"
ADA = {"Authorization": f"Bearer {TOKEN}"}
UI = "https://temporal.example.com"
HOSTS = ("testserver",)
OWN = {"Origin": "http://testserver"}


@pytest.fixture
def client() -> TestClient:
    return TestClient(
        build_codec_app(CONVERTER, TokenAccess({"ada": TOKEN, "bob": "another-token-of-bobs"}), (UI,), HOSTS)
    )


async def given(*values: Any) -> Any:
    return MessageToDict(Payloads(payloads=await CONVERTER.encode(values)))


def told(answer: Any) -> list[Any]:
    return [json.loads(base64.b64decode(payload["data"])) for payload in answer.json()["payloads"]]


async def test_values_are_decoded_in_their_order(client: TestClient) -> None:
    answer = client.post("/decode", json=await given("one", {"two": 2}), headers=ADA)
    assert (answer.status_code, told(answer)) == (200, ["one", {"two": 2}])
    assert answer.headers["cache-control"] == "no-store"


async def test_what_is_encoded_is_decoded(client: TestClient) -> None:
    plain = MessageToDict(Payloads(payloads=await pydantic_data_converter.encode(["said"])))
    encoded = client.post("/encode", json=plain, headers=ADA)
    assert "said" not in base64.b64decode(encoded.json()["payloads"][0]["data"]).decode(errors="replace")
    assert told(client.post("/decode", json=encoded.json(), headers=ADA)) == ["said"]
    assert told(client.post("/decode", json=plain, headers=ADA)) == ["said"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer a-token-of-adas-ow"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer tökén-nobody-has"},
        {"Cookie": "llm-do-codec="},
        {"Cookie": f"llm-do-codec=YWRh.{'0' * 64}"},
        {"Cookie": f"llm-do-codec={TOKEN}"},
        {"Origin": UI},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/decode", "/encode"])
async def test_nobody_else_is_told_anything(client: TestClient, path: str, headers: dict[str, str]) -> None:
    raw = {name.encode(): value.encode() for name, value in headers.items()}
    answer = client.post(path, json=await given("one"), headers=raw)
    assert answer.status_code == 401
    assert "payloads" not in answer.text


async def test_a_browser_signs_in_once(client: TestClient) -> None:
    assert client.get("/").status_code == 200
    wrong = client.post("/sign-in", data={"token": "something-else"}, headers=OWN)
    assert (wrong.status_code, wrong.cookies.get("llm-do-codec")) == (401, None)
    signed_in = client.post("/sign-in", data={"token": f" {TOKEN} "}, headers=OWN, follow_redirects=False)
    assert signed_in.status_code == 303
    cookie = signed_in.headers["set-cookie"]
    assert ("HttpOnly" in cookie, "SameSite=strict" in cookie, TOKEN in cookie) == (True, True, False)
    answer = client.post("/decode", json=await given("one"), headers={"Origin": UI})
    assert told(answer) == ["one"]
    assert answer.headers["access-control-allow-origin"] == UI
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert "signed in" in client.get("/sign-in").text
    # Another token for ada ends her sessions.
    newer = TokenAccess({"ada": "a-newer-token-of-adas"})
    later = TestClient(build_codec_app(CONVERTER, newer, (), HOSTS), cookies=client.cookies)
    assert later.post("/decode", json=await given("one")).status_code == 401


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("10.0.0.5", {"X-User": "ada", "Origin": UI}, 200),
        ("10.0.0.5", {}, 401),
        ("10.0.0.5", ADA, 401),
        ("10.0.0.6", {"X-User": "ada"}, 401),
    ],
    ids=["named by the proxy", "unnamed", "with a token", "named by another"],
)
async def test_whom_a_trusted_proxy_names_may_ask(peer: str, headers: dict[str, str], status: int) -> None:
    access, token = admitted(Admission(None, "X-User", ("10.0.0.5",)), "0.0.0.0", what="the codec server")
    client = TestClient(build_codec_app(CONVERTER, access, (UI,), HOSTS), client=(peer, 1))
    answer = client.post("/decode", json=await given("one"), headers=headers)
    assert (answer.status_code, "payloads" in answer.text, token) == (status, status == 200, None)


@pytest.mark.parametrize(("origin", "allowed"), [(UI, True), ("https://evil.example.com", False), ("null", False)])
def test_only_pages_of_the_ui_may_ask(client: TestClient, origin: str, allowed: bool) -> None:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-namespace",
    }
    answer = client.options("/decode", headers=asked)
    assert (answer.status_code == 200, "access-control-allow-origin" in answer.headers) == (allowed, allowed)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"7", b'{"payloads": 7}', b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "half", "number", "no list", "no text", "deep"],
)
def test_what_is_no_request_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/decode", content=body, headers=ADA)
    assert answer.status_code == 400
    assert '"payloads"' in answer.json()["message"]


async def test_a_missing_key_is_named(client: TestClient) -> None:
    other = encrypting(pydantic_data_converter, KeyRing.of(Key("other", b"o" * 32)))
    payloads = MessageToDict(Payloads(payloads=await other.encode(["said"])))
    answer = client.post("/decode", json=payloads, headers=ADA)
    assert (answer.status_code, "the key 'other'" in answer.json()["message"]) == (422, True)


def test_too_much_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_server, "MAX_PAYLOADS_BYTES", 1000)
    assert client.post("/decode", content=b"x" * 1001, headers=ADA).status_code == 413
    form = {"token": TOKEN, "more": "x" * MAX_SIGN_IN_BYTES}
    assert client.post("/sign-in", data=form, headers=OWN).status_code == 401


@pytest.mark.parametrize(
    ("encoding", "reference"),
    [
        ("json/protobuf", "{"),
        ("json/protobuf", {"driverName": "another"}),
        ("json/protobuf", {"driverName": "llmdo-blobs", "claimData": {"sha256": "../../../etc/passwd"}}),
        ("json/external-storage-reference", []),
        ("json/external-storage-reference", {"driver_name": "llmdo-blobs", "driver_claim": None}),
        (
            "json/external-storage-reference",
            {"driver_name": "llmdo-blobs", "driver_claim": {"claim_data": {"sha256": 7}}},
        ),
    ],
    ids=str,
)
def test_a_reference_that_is_none_stays_as_it_is(tmp_path: Path, encoding: str, reference: Any) -> None:
    data = reference if isinstance(reference, str) else json.dumps(reference)
    metadata = {"encoding": encoding, "messageType": REFERENCE_TYPE.decode()}
    sent = {name: base64.b64encode(value.encode()).decode() for name, value in (metadata | {"data": data}).items()}
    payload = {"data": sent.pop("data"), "metadata": sent}
    near = keeping_big_payloads(CONVERTER, LocalBlobStore(tmp_path, Seal(RING)))
    client = TestClient(build_codec_app(near, TokenAccess({"ada": TOKEN}), (), HOSTS))
    answer = client.post("/decode", json={"payloads": [payload]}, headers=ADA)
    assert (answer.status_code, answer.json()) == (200, {"payloads": [payload]})


async def test_big_values_are_shown_where_their_store_is_at_hand(tmp_path: Path, client: TestClient) -> None:
    converter = keeping_big_payloads(CONVERTER, LocalBlobStore(tmp_path, Seal(RING)))
    payloads = MessageToDict(Payloads(payloads=await converter.encode(["said " * 100_000])))
    assert "claimData" in told(client.post("/decode", json=payloads, headers=ADA))[0]
    near = TestClient(build_codec_app(converter, TokenAccess({"ada": TOKEN}), (), HOSTS))
    assert told(near.post("/decode", json=payloads, headers=ADA)) == ["said " * 100_000]


async def test_a_big_value_is_encrypted_as_any_other(tmp_path: Path) -> None:
    """Who asks for it sends it to Temporal, and not to the blob store."""
    near = keeping_big_payloads(CONVERTER, LocalBlobStore(tmp_path, Seal(RING)))
    client = TestClient(build_codec_app(near, TokenAccess({"ada": TOKEN}), (), HOSTS))
    plain = MessageToDict(Payloads(payloads=await pydantic_data_converter.encode(["said " * 100_000])))
    encoded = client.post("/encode", json=plain, headers=ADA)
    assert "said" not in base64.b64decode(encoded.json()["payloads"][0]["data"]).decode(errors="replace")
    assert told(client.post("/decode", json=encoded.json(), headers=ADA)) == ["said " * 100_000]
