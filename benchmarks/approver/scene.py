"""Scene of the morning: a workshop with its files, the model that plays its workers, and a server with its page."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.approver.stories import Story, deck_files, starting_files, stories
from benchmarks.contenders.ours import command
from benchmarks.processes import NotMeasured, Service, free_port, spawn
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import connect_embedded
from llm_do_temporal.client.embedded.server import running_host
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.providers.answers import Answer, Call, Text, ToolCalls
from tests.support.providers.provider import FakeProvider, by_function

DECKS = Path(__file__).parents[2] / "workers" / "files" / "pipeline"
_START_SECONDS = 60
_STOP_SECONDS = 45
_POLL_SECONDS = 0.1
_LINK = re.compile(r"^page +(http://\S+)", re.MULTILINE)
_SHELL = {"rules": [{"pattern": "rm -v", "approval_required": True}]}
_WORKERS: dict[str, dict[str, Any]] = {
    "analyst": {"toolsets": {"filesystem": {}, "delegation": {"deck_reader": {}}, "shell": _SHELL}},
    "editor": {"toolsets": {"filesystem": {}, "shell": _SHELL}},
    "clerk": {
        "toolsets": {
            "filesystem": {},
            "delegation": {"proofreader": {}},
            "custom": {"make_invoice": {}, "send_mail": {}},
        }
    },
    "deck_reader": {"attachment_policy": {"allowed_suffixes": [".pdf"]}},
    "proofreader": {"attachment_policy": {"allowed_suffixes": [".md"]}},
}
_TOOLS = '''\
"""Tools of the clerk, which do nothing outside of this machine."""


def make_invoice(customer: str, seats: int, price: int, total: int) -> str:
    """Make the invoice of a customer; the price is in euros a seat."""
    return f"made: {customer}, {total} EUR"


def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return f"sent to {to}"
'''


@dataclass(frozen=True)
class Scene:
    """Workshop that waits for its person."""

    workshop: Path
    link: str
    """Address of the page, with the token that signs in."""
    client: LlmDoClient
    stories: list[Story]


def write_workshop(workshop: Path, model_url: str) -> None:
    """Write the workshop and the files that its workers find."""
    files = workshop / "files"
    for path, text in starting_files().items():
        (files / path).parent.mkdir(parents=True, exist_ok=True)
        (files / path).write_text(text, encoding="utf-8")
    (files / "pipeline").mkdir()
    for deck in deck_files(DECKS):
        shutil.copy(deck, files / "pipeline")
    settings = {
        "name": "northwind",
        "model": "scripted",
        "models": {"scripted": {"model": "openai-chat:scripted", "base_url": model_url}},
        "sandbox": {"root": "files"},
    }
    (workshop / "workshop.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (workshop / "tools.py").write_text(_TOOLS, encoding="utf-8")
    for name, keys in _WORKERS.items():
        text = f"---\n{yaml.safe_dump({'name': name, **keys})}---\nYou are the {name} of Northwind.\n"
        (workshop / f"{name}.worker").write_text(text, encoding="utf-8")


def answer_of(request: dict[str, Any], told: list[Story]) -> Answer:
    """Return the words and calls of a model: the next turn of the story whose task the prompt is."""
    messages: list[dict[str, Any]] = request["messages"]
    prompt = str(next(message["content"] for message in messages if message["role"] == "user"))
    story = next((one for one in told if one.task in prompt), None)
    number = sum(message["role"] == "assistant" for message in messages)
    if story is None:
        return Text("I have read it, and found nothing to add.")
    if number >= len(story.turns):
        return Text(f"{story.task}: done.")
    turn = story.turns[number]
    return ToolCalls(tuple(Call(wish.tool, dict(wish.args)) for wish in turn.wishes), turn.words)


@contextmanager
def dev_in(workshop: Path) -> Generator[str]:
    """Serve the workshop as `dev` does, and yield the link to its page. Raises NotMeasured."""
    variables = {"OPENAI_API_KEY": "none"}
    began = command("dev", "--workshop", str(workshop), "--port", str(free_port()), "--page-port", str(free_port()))
    dev = spawn("dev", began, workshop.parent, variables)
    try:
        yield _link_of(dev)
    finally:
        dev.popen.terminate()
        with suppress(subprocess.TimeoutExpired):
            dev.popen.wait(_STOP_SECONDS)
        dev.kill()


@contextmanager
def model() -> Generator[str]:
    """Serve the model of the morning, and yield its address."""
    told = stories()
    with FakeProvider(by_function(lambda request: answer_of(request, told))) as provider:
        yield provider.url


async def begin(workshop: Path, link: str) -> Scene:
    """Start the runs of the morning, and return once the first questions of all of them are asked."""
    host = running_host(workshop)
    if host is None:
        raise NotMeasured("the server of the workshop is gone")
    scene = Scene(workshop, link, LlmDoClient(await connect_embedded(host.address, workshop)), stories())
    for story in scene.stories:
        request = StartRunInput(worker=story.worker, prompt=story.task, started_by="ada")
        await scene.client.start(request, run=story.run)
    first = sum(len(story.turns[0].wishes) for story in scene.stories)
    deadline = time.monotonic() + _START_SECONDS
    while len(await scene.client.approvals()) < first:
        if time.monotonic() > deadline:
            raise NotMeasured(f"the runs have not asked their first {first} questions; their model may be lost")
        await asyncio.sleep(_POLL_SECONDS)
    return scene


def _link_of(dev: Service) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while (found := _LINK.search(dev.log.read_text(encoding="utf-8"))) is None:
        dev.check()
        if time.monotonic() > deadline:
            raise NotMeasured("`dev` has not told the link of its page")
        time.sleep(_POLL_SECONDS)
    return found[1]
