"""A batch is done again from its page: what is left over, once, by whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.runs import Batch, BatchItem, StartRunInput
from tests.support.people.signed_in import browser_with

BAD = BatchItem(name="<b>bad</b>.pdf", prompt="x")
EMPTY = BatchItem(name="empty.pdf", unusable="the file 'empty.pdf' is empty")


@dataclass
class Ended:
    """A client for one run that has ended and left these items."""

    left: tuple[BatchItem, ...]
    prompt: str = ""
    started: dict[str, StartRunInput] = field(default_factory=dict[str, StartRunInput])

    @property
    def temporal(self) -> Any:
        """The page of the new run has no server to ask."""
        raise UsageError("no server here")

    async def unfinished(self, run: str) -> StartRunInput:
        """See LlmDoClient."""
        if not self.left:
            raise UsageError(f"all 2 items of run '{run}' have completed; there is nothing to do")
        return StartRunInput(worker="reader", prompt=self.prompt, batch=Batch(items=self.left), started_by="bob")

    async def start(self, request: StartRunInput, *, run: str) -> str:
        """See LlmDoClient."""
        if run in self.started:
            raise UsageError(f"there is already a run '{run}'")
        self.started[run] = request
        return run

    async def status(self, run: str) -> None:
        """See LlmDoClient."""
        assert run in self.started


async def test_what_is_left_over_is_started_once_however_often_the_form_is_sent() -> None:
    ended = Ended((BAD, EMPTY))
    browser = await browser_with(ended)
    page = await browser.open("/runs/decks/retry")
    assert "Do 2 items again?" in page.text
    assert "<b>bad</b>.pdf" in page.text
    assert "cannot be used: the file 'empty.pdf' is empty" in page.text
    (form,) = [form for form in page.forms if form.action.endswith("/retry")]
    for _ in range(2):
        await browser.send(page, form, reuse="")
    ((run, request),) = ended.started.items()
    assert run.startswith("reader-")
    assert request.batch is not None
    assert (request.batch.items, request.started_by) == ((BAD, EMPTY), "ada")


async def test_a_form_without_its_key_starts_nothing() -> None:
    ended = Ended((BAD,))
    browser = await browser_with(ended)
    page = await browser.open("/runs/decks/retry")
    (form,) = [form for form in page.forms if form.action.endswith("/retry")]
    assert "This form is not complete" in (await browser.send(page, form, without="key")).text
    assert ended.started == {}


async def test_where_no_file_can_be_used_there_is_no_button() -> None:
    page = await (await browser_with(Ended((EMPTY,)))).open("/runs/decks/retry")
    assert "there is nothing to start here" in page.text
    assert not [form for form in page.forms if form.action.endswith("/retry")]


async def test_a_batch_that_is_done_says_so() -> None:
    page = await (await browser_with(Ended(()))).open("/runs/decks/retry")
    assert (page.status, "have completed" in page.text) == (404, True)


async def test_the_batch_is_called_by_its_task() -> None:
    page = await (await browser_with(Ended((BAD,), "Read them.\nAll of them."))).open("/runs/decks/retry")
    assert "Runs / Read them. / retry" in page.text
    assert "Read them. decks" in page.text
    assert "/ decks / retry" in (await (await browser_with(Ended((BAD,)))).open("/runs/decks/retry")).text
