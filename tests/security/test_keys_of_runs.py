"""Values of configured keys in what runs leave behind: no history, export, trace or log of one keeps a key."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from temporalio.client import Client

from llm_do_temporal.errors import LlmDoError, ModelFailed
from llm_do_temporal.testing import call, scripted
from tests.support.people.forked_program import run_forked
from tests.support.providers.repeater import Repeater, plainly
from tests.support.runs.place import Place
from tests.support.workshops.leaked_keys import KEY, PASSWORD, leaks


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("WAREHOUSE_PASSWORD", PASSWORD)


PROVIDERS = {
    "openai": ("openai-chat:gpt-test", "/v1"),
    "openai-responses": ("openai-responses:gpt-test", "/v1"),
    "anthropic": ("anthropic:claude-test", ""),
    "google": ("google:gemini-test", ""),
}
WORDINGS: dict[str, Callable[[str], str]] = {
    "plainly": plainly,
    "late": lambda key: "x" * 470 + key,  # where the text is cut, and says how long it was
    "in JSON": lambda key: json.dumps({"request": json.dumps({"authorization": f"Bearer {key}"})}),
    "in an address": lambda key: f"GET https://api.example.com/?key={quote(key, safe='')} was refused",
    "in lines": lambda key: f"Your key\n  {key[:20]}\n  {key[20:]}\nis wrong",
}


async def everything_kept(place: Place) -> str:
    """All that the server holds of what was started here."""
    histories = await place.histories()
    return "".join(event.SerializeToString().decode(errors="replace") for one in histories for event in one.events)


@pytest.mark.thorough
@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_provider_that_repeats_the_key_is_not_repeated(
    provider: str, wording: str, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("THE_PLACE_FOR_IT", KEY.rstrip("="))
    monkeypatch.delenv("OPENAI_API_KEY")
    model, path = PROVIDERS[provider]
    with Repeater(401, wording=WORDINGS[wording]) as repeater:
        alias = {"model": model, "base_url": f"{repeater.url}{path}", "api_key_env": "THE_PLACE_FOR_IT"}
        place.workshop(models={"ours": alias})
        place.worker("main", "ours")
        with pytest.raises(ModelFailed) as failed:
            await place.run("main")
        assert repeater.keys == [KEY.rstrip("=")]
    assert "[key THE_P" in str(failed.value)
    assert not leaks(str(failed.value), KEY.rstrip("="))
    assert not leaks(await everything_kept(place), KEY.rstrip("="))
    assert not leaks(caplog.text, KEY.rstrip("="))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("status", [400, 403, 404, 422, 500, 503, 429])
async def test_whatever_it_answers(
    status: int, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Repeater(status, 401) as repeater:  # the first of them is kept as the failure before the last
        monkeypatch.setenv("OPENAI_BASE_URL", f"{repeater.url}/v1")
        place.worker("main", "openai-chat:gpt-test")
        with pytest.raises(LlmDoError) as failed:
            await place.run("main")
    assert not leaks(str(failed.value))
    assert not leaks(await everything_kept(place))
    assert not leaks(caplog.text)


async def test_a_tool_that_fails_with_a_key_tells_the_model_none(place: Place) -> None:
    place.write(
        "tools.py",
        "import os\n\n"
        "def connect() -> str:\n    '''Connect.'''\n    raise ValueError('refused: ' + os.environ['OPENAI_API_KEY'])\n",
    )
    place.worker("main", scripted(call("connect"), "Done."), toolsets={"custom": {"connect": {}}})
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    kept = await everything_kept(place)
    assert not leaks(kept)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format_", ["html", "json", "md", "trace", "logs"])
@pytest.mark.extension("export")
async def test_no_export_and_no_trace_has_a_key_that_an_old_history_has(
    format_: str, place: Place, tmp_path: Path
) -> None:
    place.worker("main", scripted(f"The key is {KEY}."), instructions=f"Use {KEY}.")
    run = await place.start("main", f"What is {KEY}?")
    await place.client.result(run)
    assert leaks(await everything_kept(place))
    temporal: Client = place.client.temporal
    out = tmp_path / f"run.{format_}"
    arguments = {
        "trace": ["watch", run, "--trace-dir", str(tmp_path / "traces"), "--log-events"],
        "logs": ["logs", run],
    }.get(format_, ["export", run, "-o", str(out)])
    done = await asyncio.to_thread(
        run_forked,
        [*arguments, "--workshop", str(place.folder)],
        folder=Path.cwd(),
        environment=os.environ | {"TEMPORAL_ADDRESS": temporal.service_client.config.target_host},
    )
    assert done.returncode == 0, done.stderr
    files = [out] if out.exists() else list((tmp_path / "traces").glob("*"))
    written = "".join(file.read_text() for file in files) + (done.stdout if format_ == "logs" else "") + done.stderr
    assert "[key OPENAI_API_KEY]" in written
    assert not leaks(written)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def read(file: Path) -> str:
    """The content of a file; the server is not gone yet, and what it had a moment ago, a journal for one, may be."""
    with suppress(IsADirectoryError, FileNotFoundError):
        return file.read_bytes().decode(errors="replace")
    return ""


@pytest.mark.thorough
def test_nothing_that_a_command_leaves_behind_has_the_key(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("name: test\n")
    (tmp_path / "workers" / "main.worker").write_text("---\nmodel: openai-chat:gpt-test\n---\nDo it.\n")
    with Repeater(401) as repeater:
        done = subprocess.run(
            [sys.executable, "-m", "llm_do_temporal.cli", "start", "main", "go", "--workshop", str(tmp_path)],
            env=os.environ | {"OPENAI_BASE_URL": f"{repeater.url}/v1", "LLM_DO_DEBUG": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert repeater.keys
    assert done.returncode != 0
    assert "[key OPENAI_API_KEY]" in done.stderr
    kept = "".join(read(file) for file in (tmp_path / ".llm-do").rglob("*"))
    assert "model turn failed" in kept
    assert not leaks(done.stdout + done.stderr + kept)
