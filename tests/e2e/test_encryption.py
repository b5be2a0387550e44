"""Two worker services, TLS with certificates on both sides, and a server that is not to know what is said."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from pypdf import PdfReader
from temporalio.client import Client

from llm_do_temporal.client.embedded.server import accepts
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk
from tests.support.ports import unused_port
from tests.support.servers.temporal import temporal_server
from tests.support.servers.tls import make_certificates, mutual_tls

KEY = f"e2e:{base64.b64encode(b'k' * 32).decode()}"
PROMPT = "evaluate every deck, and beware of the violet walrus"
TOKEN = "a-token-of-adas-own"
OF_THE_RUN = "WorkflowId = 'job' OR WorkflowId STARTS_WITH 'job/'"
CONTROL = "this much can be found in the database"
_TEMPORAL = Path(sysconfig.get_path("scripts")) / "temporal"


@dataclass
class Vault:
    """A server behind TLS whose files are at hand."""

    inside: str
    """Where it can be reached without TLS, by this test alone."""
    folder: Path

    def files(self) -> bytes:
        """All that the server has written down."""
        return b"".join(path.read_bytes() for path in self.folder.glob("temporal.db*"))


@pytest.fixture
def vault(desk: Desk, tmp_path: Path) -> Iterator[Vault]:
    """The server, and a desk that knows how to reach it."""
    folder = tmp_path / "server"
    folder.mkdir()
    certificates = make_certificates(tmp_path / "certificates")
    database = ("--db-filename", str(folder / "temporal.db"))
    with temporal_server(*database) as inside, mutual_tls(inside, certificates) as address:
        desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_ENCRYPTION_KEYS": KEY, **certificates.flags}
        yield Vault(inside, folder)
        desk.close()


@pytest.mark.extension("codec_server")
async def test_the_server_knows_nothing_and_the_codec_server_tells_those_who_may_know(desk: Desk, vault: Vault) -> None:
    with (desk.workshop / "workshop.yaml").open("a") as settings:
        settings.write("separate_files: true\n")
    # So that each has something to do.
    services = [desk.begin("worker", "--only", roles) for roles in ("workflows,models", "files")]
    result = desk.type("start", "pitch_orchestrator", PROMPT, "--id", "job", "--approve-all").stdout
    assert sorted(desk.evaluations()) == desk.decks
    assert "pitch_evaluator" in desk.type("show", "job").stdout
    for service in services:
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=PATIENCE_SECONDS) == 0
    secrets = must_not_be_found(desk, result)
    client = await Client.connect(vault.inside)
    await client.start_workflow("Nothing", CONTROL, id="control", task_queue="nobody")
    eventually(lambda: CONTROL.encode() in vault.files(), "what is not encrypted is found")
    await listed(client, 1 + len(desk.decks))
    events = await histories(client)
    assert [f"{service.pid}@".encode() in events for service in services] == [True, True]
    seen = vault.files() + events + blobs(desk)
    assert [secret for secret in secrets if secret in seen] == []
    assert KEY.encode() not in seen + logs(services)
    await shown_to_those_who_may(desk, client)
    desk.environment["LLM_DO_ENCRYPTION_KEYS"] = KEY.replace("e2e:", "other:")
    said = desk.type("show", "job", code=2).stderr
    assert "encrypted with the key 'e2e', which this process does not have (it has: 'other')" in said
    assert ("Traceback" in said, KEY[4:] in said) == (False, False)
    # Who has no certificate is not even told that there is nothing to read.
    for name in [name for name in desk.environment if "_TLS_CLIENT_" in name]:
        del desk.environment[name]
    assert "Traceback" not in desk.type("list", "--tls", code=4).stderr


def must_not_be_found(desk: Desk, result: str) -> list[bytes]:
    """What must not be found: the prompt, what came of it, what the decks say, and what the workers are told."""
    texts = [PROMPT, result, *desk.evaluations().values()]
    texts += [page.extract_text() for path in decks(desk) for page in PdfReader(path).pages]
    texts += [path.read_text() for path in desk.workshop.glob("pitch_*.worker")]
    lines = {line.strip() for text in texts for line in text.splitlines()}
    found = [line.encode() for line in sorted(lines) if len(line) >= 20]
    assert len(found) > 100
    return [b"violet walrus", b"%PDF", *(path.stem.encode() for path in decks(desk)), *found]


def decks(desk: Desk) -> list[Path]:
    return sorted((desk.workshop / "files/pipeline").glob("*.pdf"))


async def listed(client: Client, count: int) -> None:
    """Wait until the server lists so many workflows of the run: it does so a moment after they have begun."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if (await client.count_workflows(OF_THE_RUN)).count == count:
                return
            await asyncio.sleep(0.05)


async def histories(client: Client) -> bytes:
    """Every event of every workflow, as the server tells it."""
    found = b""
    async for execution in client.list_workflows(OF_THE_RUN):
        found += execution.raw_info.SerializeToString() if execution.raw_info else b""
        async for event in client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history_events():
            found += event.SerializeToString()
    assert found.count(b"binary/encrypted") > 100
    return found


def blobs(desk: Desk) -> bytes:
    """What is kept beside the server."""
    found = [path for path in (desk.workshop / ".llm-do" / "blobs").rglob("*") if path.is_file()]
    assert len(found) >= len(desk.decks)
    return b"".join(path.name.encode() + path.read_bytes() for path in found)


def logs(services: list[subprocess.Popen[str]]) -> bytes:
    return "".join((service.stderr.read() if service.stderr else "") for service in services).encode()


async def shown_to_those_who_may(desk: Desk, client: Client) -> None:
    """The input of the run, by way of the codec server: with the token, with another one, and with none."""
    tokens = desk.workshop.parent / "tokens"
    tokens.write_text(f"ada: {TOKEN}\n")
    port = unused_port()
    server = desk.begin("codec-server", "--port", str(port), "--token-file", str(tokens))
    eventually(lambda: accepts(f"127.0.0.1:{port}"), "the codec server listens")
    history = await client.get_workflow_handle("job").fetch_history()
    given = MessageToDict(history.events[0].workflow_execution_started_event_attributes.input)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as asking:
        told = await asking.post("/decode", json=given, headers={"Authorization": f"Bearer {TOKEN}"})
        assert told.status_code == 200
        (payload,) = told.json()["payloads"]
        assert json.loads(base64.b64decode(payload["data"]))["prompt"] == PROMPT
        for headers in ({}, {"Authorization": "Bearer something-else-entirely"}, {"Cookie": "llm-do-codec=YWRh.0"}):
            refused = await asking.post("/decode", json=given, headers=headers)
            assert refused.status_code == 401
            assert not re.search("walrus|payloads", refused.text)
    codec = ("--codec-endpoint", f"http://127.0.0.1:{port}", "--codec-auth", f"Bearer {TOKEN}")
    assert [desk.decks[0] in temporal(desk, *flags) for flags in ((), codec)] == [False, True]
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=PATIENCE_SECONDS) == 0


def temporal(desk: Desk, *flags: str) -> str:
    """What the `temporal` CLI says came of the run."""
    where = ("--address", desk.environment["TEMPORAL_ADDRESS"])
    command = [str(_TEMPORAL), "workflow", "result", "-w", "job", *where, *flags]
    done = subprocess.run(
        command, env=desk.environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    return done.stdout + done.stderr
