"""Hostile folders, texts and messages at the language server: nothing is run, nothing ends it, nothing leaks."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from lsprotocol import types

from llm_do_temporal.extensions.lsp.edited_file import saved_lines
from tests.support.extensions.lsp.editor import COMMAND, Editor, editor
from tests.support.patience import PATIENCE_SECONDS

GOOD = "description: Reads\ntoolsets:\n  delegation: {}\n---\nRead.\n"
TEXTS = {
    "open brackets": "a: [[[[[[",
    "half a key": "descr",
    "half a mapping": "toolsets:\n  delegation: {x",
    "tabs": "\ttoolsets:\n\t\tshell: {}\n",
    "carriage returns": "model: x\rtoolsets: {}\r---\rRead.\r",
    "old and new line ends": "model: x\r\n\n\rtoolsets: {}\u2028x: 1\u0085y: 2\n---\nRead.\n",
    "a bomb of aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "an alias of itself": "a: &a [*a]\n",
    "an anchor nowhere": "a: *b\n",
    "deep nesting": "a: " + "[" * 5_000,
    "deep keys": "".join(f"{' ' * n}k:\n" for n in range(600)),
    "a tag that builds an object": "a: !!python/object/apply:os.system ['touch ran']\n",
    "duplicate keys": "model: a\nmodel: b\n" * 500,
    "a NUL": "model: a\0b\n---\nRead.\n",
    "half of a surrogate pair": 'model: "\\ud800"\n---\nRead.\n',
    "emoji": "model: '😀😀😀😀'\n" * 200,
    "many documents": "---\n" * 5_000,
    "a merge key": "a: &a {model: x}\nlimits: {<<: *a}\n",
    "a key that is a mapping": "? {a: b}\n: c\n",
    "a long line": "model: " + "x" * 500_000,
    "ten megabytes": "x" * 10_000_000,
    "many keys": "".join(f"k{n}: {n}\n" for n in range(20_500)),
    "a template that never ends": "description: x\n---\n"
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}\n",
    "escape codes": 'model: "\\e]0;title\\a"\n---\nRead.\n',
}


def made(root: Path) -> Path:
    (root / "workers").mkdir(parents=True)
    (root / "workshop.yaml").write_text("models: {fast: offline:echo}\n")
    (root / "workers/good.worker").write_text(GOOD)
    return root


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    return made(tmp_path / "workshop")


@dataclass
class Served:
    """A workshop, and an editor at a server that goes through many attacks."""

    workshop: Path
    at: Editor


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    workshop = made(tmp_path_factory.mktemp("served") / "workshop")
    async with editor(workshop) as at:
        yield Served(workshop, at)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_no_text_ends_the_server(served: Served, text: str) -> None:
    at, workers = served.at, served.workshop / "workers"
    document = at.open(workers / "hostile.worker", text)
    lines = text.split("\n")
    for line, column in ((0, 0), (0, 3), (len(lines) - 1, 2), (2**31 - 1, 2**31 - 1)):
        await at.hover(document, line, column)
        await at.offered(document, line, column)
    good = at.open(workers / "good.worker")
    assert await at.problems(good) == []
    assert "Calls of other workers" in await at.hover(good, 2, 4)
    at.close(good)
    at.close(document)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", list(TEXTS.values())[:5], ids=list(TEXTS)[:5])
async def test_a_worker_is_served_while_the_workshops_file_is_broken(workshop: Path, text: str) -> None:
    async with editor(workshop) as at:
        at.open(workshop / "workshop.yaml", text)
        good = at.open(workshop / "workers/good.worker")
        await at.problems(good)
        assert "Calls of other workers" in await at.hover(good, 2, 4)
        assert any(one.label == "model" for one in await at.offered(good, 0, 0))


PYTHON = """\
import pathlib
pathlib.Path({ran!r}).touch()
from pydantic import BaseModel
class Out(BaseModel):
    x: int
def tool(x: int) -> int:
    'T.'
    return x
"""
RUNNING = (
    "output_schema_ref: schemas.py:Out\n",
    "schema_in_ref: schemas.py:Out\n",
    "output_schema_ref: schemas.Out\n",
    "toolsets:\n  custom: {tool: {}}\n",
    "toolsets:\n  schemas.Out: {}\n",
    "toolsets:\n  tools.Out: {}\n",
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keys", RUNNING)
async def test_opening_a_hostile_folder_runs_none_of_its_python(workshop: Path, ran: Path, keys: str) -> None:
    for name in ("schemas.py", "tools.py", "workers/tools.py", "sitecustomize.py", "conftest.py", "pydantic.py"):
        (workshop / name).write_text(PYTHON.format(ran=str(ran)))
    worker = workshop / "workers/hostile.worker"
    worker.write_text(f"description: x\n{keys}---\nRead.\n")
    (workshop / "workshop.yaml").write_text("approvals: {rules: {made.up: blocked}}\n")
    async with editor(workshop) as at:
        document = at.open(worker)
        await at.problems(document)
        for line in (1, 2):
            for column in (2, 12, 20, 30):
                await at.hover(document, line, column)
                await at.offered(document, line, column)
                place = types.Position(line, column)
                await at.client.text_document_definition_async(types.DefinitionParams(document, place))
    assert not ran.exists()  # noqa: ASYNC240 - nothing else runs here


async def test_a_link_out_of_the_workshop_is_not_read(workshop: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("description: hunter2\ntoolsets: {filesystem: {}}\n---\nhunter2\n")
    (workshop / "workers/stolen.worker").symlink_to(secret)
    (workshop / "stolen.py").symlink_to(secret)
    async with editor(workshop) as at:
        text = "toolsets:\n  delegation: {stolen: {}}\noutput_schema_ref: stolen.py:X\n---\nRead.\n"
        document = at.open(workshop / "workers/good.worker", text)
        found = [one.message for one in await at.problems(document)]
        found += [await at.hover(document, 1, 17), await at.hover(document, 2, 25)]
        found += [str(one.documentation) for one in await at.offered(document, 1, 16)]
        assert await at.problems_of(workshop / "workers/stolen.worker")
    assert "hunter2" not in "".join(found)


SHOWN = ("workers/evil.worker", "workers/evil.eval.yaml", "workshop.yaml")
"""Files that have a problem, so that the place of it is looked for in their text."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("kind", ["a secret", "five gigabytes", "a file that never ends"])
async def test_a_problem_of_what_may_not_be_read_tells_nothing_of_it(
    workshop: Path, tmp_path: Path, name: str, kind: str
) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"hunter2" * 100)
    if kind == "five gigabytes":
        os.truncate(out, 5 * 1024**3)
    (workshop / name).unlink(missing_ok=True)
    (workshop / name).symlink_to("/proc/kmsg" if kind == "a file that never ends" else out)
    earlier = servers()
    async with editor(workshop) as at:
        good = at.open(workshop / "workers/good.worker")
        (problem, *_) = await at.problems_of(workshop / name)
        assert problem.range.end == problem.range.start
        assert "hunter2" not in problem.message
        assert "Calls of other workers" in await at.hover(good, 2, 4)
        (server,) = servers() - earlier
        assert server.memory_info().rss < 400 * 1024**2


@pytest.mark.parametrize("name", SHOWN)
def test_a_pipe_is_not_waited_for(workshop: Path, name: str) -> None:
    (workshop / name).unlink(missing_ok=True)
    os.mkfifo(workshop / name)
    assert saved_lines(name, workshop) == ()


def servers() -> set[psutil.Process]:
    """Return the language servers that this process has started; others of its children may end meanwhile."""
    found: set[psutil.Process] = set()
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "lsp" in one.cmdline():
                found.add(one)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keys", ["{MODEL_KEY: x}\nmodel: ", "toolsets:\n  mcp:\n    m:\n      env: ["])
async def test_no_value_of_the_environment_is_offered(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-hunter2hunter2hunter2")
    async with editor(workshop) as at:
        document = at.open(workshop / "workers/good.worker", keys)
        lines = keys.split("\n")
        offered = await at.offered(document, len(lines) - 1, len(lines[-1]))
    assert "hunter2" not in "".join(f"{one.label}{one.documentation}" for one in offered)


@asynccontextmanager
async def raw(root: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Give a server whose pipes are ours."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, cwd=root, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def framed(message: Any) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def request(number: int, method: str, params: Any) -> bytes:
    return framed({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


async def answer(process: asyncio.subprocess.Process, number: int) -> dict[str, Any]:
    """Return the answer to a request."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            size = 0
            while (line := (await process.stdout.readline()).strip()) or not size:
                name, _, value = line.partition(b":")
                size = int(value) if name == b"Content-Length" else size
                assert line or size, "the server has ended"
            message = json.loads(await process.stdout.readexactly(size))
            if message.get("id") == number:
                return message


MESSAGES = {
    "no JSON": framed(b"{"),
    "no object": framed([1, 2]),
    "a number": framed(3),
    "nothing": framed(b"null"),
    "bytes that are no text": framed(b"\xff\xfe\xff"),
    "no method": framed({"jsonrpc": "2.0", "id": 5}),
    "no version": framed({"id": 5, "method": "x"}),
    "another version": framed({"jsonrpc": "1.0", "id": 5, "method": "x", "params": {}}),
    "an unknown method": request(5, "x/y", {}),
    "a private method": request(5, "__class__", {}),
    "params that fit nothing": request(5, "textDocument/hover", {"position": "x"}),
    "a list for params": request(5, "textDocument/hover", [1]),
    "no params": framed({"jsonrpc": "2.0", "id": 5, "method": "textDocument/hover"}),
    "a negative place": request(
        5,
        "textDocument/hover",
        {"textDocument": {"uri": "file:///x.worker"}, "position": {"line": -1, "character": -1}},
    ),
    "a place that is no number": request(
        5, "textDocument/hover", {"textDocument": {"uri": "file:///x"}, "position": {"line": "a", "character": {}}}
    ),
    "an address that is none": framed(
        {
            "jsonrpc": "2.0",
            "method": "textDocument/didOpen",
            "params": {"textDocument": {"uri": "::::%00%ff", "languageId": "x", "version": 1, "text": "a: 1"}},
        }
    ),
    "a change of what is not open": framed(
        {
            "jsonrpc": "2.0",
            "method": "textDocument/didChange",
            "params": {"textDocument": {"uri": "file:///no", "version": 1}, "contentChanges": [{"text": "x"}]},
        }
    ),
    "a cancel of nothing": framed({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 77}}),
    "an answer to nothing": framed({"jsonrpc": "2.0", "id": "no", "result": None}),
    "a second greeting": request(5, "initialize", {"processId": None, "rootUri": None, "capabilities": {}}),
    "an unknown command": request(5, "workspace/executeCommand", {"command": "rm"}),
    "deep JSON": framed(b"[" * 100_000 + b"]" * 100_000),
    "headers without an end": b"X: " + b"y" * 20_000 + b"\r\n",
    "a length that is none": b"Content-Length: many\r\n\r\n",
    "a negative length": b"Content-Length: -5\r\n\r\n",
    "a message of 65 MB": framed(b"x" * 65 * 1024 * 1024),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lasting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server that goes through many messages, and leaves as it is told, without a word of where it stands."""
    workshop = made(tmp_path_factory.mktemp("lasting") / "workshop")
    async with raw(workshop) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        saying = asyncio.create_task(process.stderr.read())
        greeting: dict[str, Any] = {"processId": None, "rootUri": workshop.as_uri(), "capabilities": {}}
        process.stdin.write(request(1, "initialize", greeting))
        await answer(process, 1)
        yield process
        process.stdin.write(request(2, "shutdown", None))
        assert (await answer(process, 2))["result"] is None
        process.stdin.write(framed({"jsonrpc": "2.0", "method": "exit"}))
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = (await saying).decode()
    for place in (workshop, Path(sys.executable).parent):
        assert str(place) not in said
    assert "Traceback" not in said


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("number", "message"), list(enumerate(MESSAGES.values(), 100)), ids=MESSAGES.keys())
async def test_no_message_ends_the_server_or_tells_where_it_stands(
    lasting: asyncio.subprocess.Process, number: int, message: bytes
) -> None:
    assert lasting.stdin is not None
    lasting.stdin.write(message)
    place = {"textDocument": {"uri": "file:///x.worker"}, "position": {"line": 0, "character": 0}}
    lasting.stdin.write(request(number, "textDocument/hover", place))
    assert (await answer(lasting, number))["result"] is None


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["textDocument/hover", "textDocument/completion", "textDocument/rename", "shutdown"])
async def test_a_request_before_the_greeting_is_an_error_and_no_end(workshop: Path, method: str) -> None:
    params = {"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": 0}, "newName": "x"}
    async with raw(workshop) as process:
        assert process.stdin is not None
        process.stdin.write(request(1, method, None if method == "shutdown" else params))
        found = await answer(process, 1)
    assert method == "shutdown" or found["error"]["code"] == -32002


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["MESSAGE", "too large"])
async def test_an_editor_that_dies_takes_the_server_with_it(workshop: Path, key: str) -> None:
    async with raw(workshop) as process:
        assert process.stdin is not None
        process.stdin.write(b"Content-Length: 99999999999999\r\n\r\n" if key == "too large" else b"Content-Len")
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0


@pytest.mark.parametrize("new", ["../../x", "/etc/x", "a\0b", "", "x" * 5_000, "con/aux", "UPPER", "shell", "a b"])
async def test_a_rename_leads_nowhere_else(served: Served, new: str) -> None:
    document = served.at.open(served.workshop / "workers/good.worker")
    with pytest.raises(Exception, match=r"not valid|reserved"):
        await served.at.rename(document, 0, 3, new)
    served.at.close(document)
