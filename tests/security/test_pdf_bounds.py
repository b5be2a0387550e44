"""What is in a PDF is parsed elsewhere, for so long and with so much memory, and not after anybody wants it."""

from __future__ import annotations

import asyncio
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.activities.models.attachments import MAX_ATTACHED_CHARS, flaw_of_pdf, text_of
from llm_do_temporal.errors import AttachmentRefusal, RunCancelled
from llm_do_temporal.offline.script_model import SeenRequest
from llm_do_temporal.pdf import reader
from llm_do_temporal.pdf.reader import Order, PdfFailure, in_thread, pdf_text
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.ui.pages.attachments import pages_alone
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.providers.answers import MAX_WAIT_SECONDS, Text
from tests.support.providers.provider import by_function
from tests.support.runs.place import Place
from tests.support.workshops.forged_pdfs import LARGE, SLOW, TANGLED, page, stream, text

Forged = Callable[[], bytes]
PDF = "application/pdf"
ALL = {**SLOW, **LARGE, **TANGLED}
ORDER = Order("text", 1000, characters=MAX_ATTACHED_CHARS)
ENDLESS = SLOW["many pages of many words"]


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches soon."""
    monkeypatch.setattr(reader, "CPU_SECONDS", 2)
    monkeypatch.setattr(reader, "SECONDS", 20)
    monkeypatch.setattr(reader, "MEMORY_BYTES", 400 << 20)


def helpers(process: int | None = None) -> list[psutil.Process]:
    """The processes that parse for this process."""
    return [one for one in psutil.Process(process).children(recursive=True) if "pdf/helper.py" in " ".join(_argv(one))]


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def workers(process: int | None = None) -> list[psutil.Process]:
    """Those that have a file."""
    found = helpers(process)
    ids = {one.pid for one in found}
    return [one for one in found if _parent(one) in ids]


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


async def until_at_work() -> list[psutil.Process]:
    """The processes that have a file, as soon as there is one."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not (found := workers()):  # noqa: ASYNC110 - nobody tells of processes
            await asyncio.sleep(0.01)
    return found


def wait_for_end(processes: Iterable[psutil.Process]) -> None:
    """Return when they have all ended; whoever inherits one may be slow to take note of it."""
    watched = list(processes)
    eventually(lambda: all(map(_has_ended, watched)), f"{watched} end")


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("forged", ALL.values(), ids=ALL)
def test_the_text_of_a_forged_file_is_a_text_or_a_refusal(forged: Forged) -> None:
    try:
        found = text_of(forged(), PDF, "a.pdf")
    except AttachmentRefusal as refusal:
        found = str(refusal)[:300]
    assert "a.pdf" in found
    assert len(found) < 2 * MAX_ATTACHED_CHARS
    wait_for_end(workers())


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("forged", ALL.values(), ids=ALL)
def test_the_flaw_of_a_forged_file_is_a_clause_or_not_known(forged: Forged) -> None:
    found = flaw_of_pdf(forged())
    assert found == "" or found.startswith(("it is damaged: ", "it has no pages"))
    assert len(found) < 100
    wait_for_end(workers())


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("forged", ALL.values(), ids=ALL)
def test_the_pages_of_a_forged_file_are_shown_or_not(forged: Forged) -> None:
    shown = pages_alone(forged())
    assert shown is None or shown.startswith(b"%PDF")
    wait_for_end(workers())


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("forged", [*SLOW.values(), *LARGE.values()], ids=[*SLOW, *LARGE])
def test_the_pages_of_a_forged_deck_are_read_or_not(forged: Forged) -> None:
    assert len(_pages(forged())) <= 200
    wait_for_end(workers())


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize(
    ("limit", "most"), [("CPU_SECONDS", 1), ("SECONDS", 0.5), ("MEMORY_BYTES", 150 << 20)], ids=str
)
def test_each_limit_ends_it_by_itself(monkeypatch: pytest.MonkeyPatch, limit: str, most: float) -> None:
    monkeypatch.setattr(reader, "CPU_SECONDS", 60)
    monkeypatch.setattr(reader, limit, most)
    with pytest.raises(PdfFailure, match="takes more than"):
        pdf_text(ENDLESS(), ORDER)
    wait_for_end(workers())


def test_a_result_that_is_too_large_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RESULT_BYTES", 1000)
    assert pages_alone(page(stream(text("x" * 5000)))) is None


def _text_alone(data: bytes) -> object:
    return text_of(data, PDF, "a")


def _pages(data: bytes) -> tuple[str, ...]:
    """The pages of an attached file, as a play gets them."""
    attached = UserPromptPart([BinaryContent(data, media_type=PDF)])
    return SeenRequest((ModelRequest([attached]),), ModelRequestParameters()).pages


def _plain(data: bytes) -> object:
    return pdf_text(data, ORDER)


@pytest.mark.parametrize("work", [_text_alone, _plain, _pages], ids=["turn", "text", "play"])
async def test_it_ends_when_nobody_waits_any_more(work: Callable[[bytes], object]) -> None:
    waiting = asyncio.create_task(in_thread(work, ENDLESS()))
    found = await until_at_work()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(wait_for_end, found)


async def test_those_that_wait_for_their_turn_go_when_nobody_waits_any_more() -> None:
    data = ENDLESS()
    waiting = [asyncio.create_task(in_thread(pdf_text, data, ORDER)) for _ in range(2 * reader.AT_ONCE)]
    await until_at_work()
    assert len(workers()) <= reader.AT_ONCE
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while workers():  # noqa: ASYNC110 - nobody tells of processes
            await asyncio.sleep(0.01)
    assert pdf_text(page(stream(text())), ORDER).count == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_it_dies_with_the_process_that_asked(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(ENDLESS())
    code = "import sys; from llm_do_temporal.pdf.reader import *; data = open(sys.argv[1], 'rb').read()"
    code += "; print('begins', flush=True); pdf_text(data, Order('text', 1000, characters=1 << 30))"
    with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        while not workers(asking.pid):
            select.select([], [], [], 0.01)
        found = helpers(asking.pid)
        asking.send_signal(number)
    wait_for_end(found)


def test_another_helper_comes_where_one_was_killed() -> None:
    pdf_text(page(stream(text())), ORDER)
    for helper in helpers():
        with suppress(psutil.NoSuchProcess):  # one that read for somebody else has ended by itself
            helper.kill()
    assert pdf_text(page(stream(text("Again"))), ORDER).texts == ("Again",)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "LLM_DO_ENCRYPTION_KEYS", "PYTHONPATH", "PYTHONSTARTUP"])
def test_what_parses_has_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "sk-not-for-you")
    reader._forget()  # pyright: ignore[reportPrivateUsage]
    pdf_text(page(stream(text())), ORDER)
    looked_at = 0
    for helper in helpers():
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # it has just ended
            known, raw = helper.environ(), Path(f"/proc/{helper.pid}/environ").read_bytes()
            looked_at += 1
            assert name not in known
            assert b"sk-not-for-you" not in raw
    assert looked_at


async def start_endless(place: Place, point_at: Callable[..., object]) -> str:
    """A run whose first turn has to read a file that takes for ever."""
    point_at(by_function(lambda _: Text("Read.")))
    (place.folder / "deck.pdf").write_bytes(ENDLESS())
    place.workshop(model="m", models={"m": {"model": "openai-chat:gpt-4o", "accepts": ["text"]}})
    place.worker("main")
    store = LocalBlobStore(blob_folder(place.folder))
    attached = snapshot_host_files([place.folder / "deck.pdf"], store, 20_000_000)
    return await place.start("main", attachments=[one.model_dump() for one in attached])


@pytest.mark.thorough
async def test_a_turn_with_an_endless_file_is_refused(
    place: Place, point_at: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CPU_SECONDS", 2)
    run = await start_endless(place, point_at)
    with pytest.raises(AttachmentRefusal, match="takes more than"):
        await place.client.result(run)


@pytest.mark.thorough
async def test_a_turn_that_is_cancelled_reads_no_longer(place: Place, point_at: Callable[..., object]) -> None:
    run = await start_endless(place, point_at)
    found = await until_at_work()
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    await asyncio.to_thread(wait_for_end, found)


@pytest.mark.control
def test_a_forged_file_does_not_keep_the_next_from_being_read() -> None:
    with pytest.raises(AttachmentRefusal):
        text_of(b"%PDF-1.7\n", PDF, "a.pdf")
    assert "Good morning" in text_of(page(stream(text())), PDF, "a.pdf")


@pytest.mark.control
def test_a_fork_of_the_service_reads_by_itself() -> None:
    code = textwrap.dedent(
        """
        import os
        from llm_do_temporal.pdf.reader import Order, pdf_text
        from tests.support.workshops.forged_pdfs import page, stream, text
        read = lambda: pdf_text(page(stream(text())), Order("text", 9, characters=99)).texts
        assert read() == ("Good morning",)
        child = os.fork()
        assert read() == ("Good morning",)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS, cwd=Path.cwd())
