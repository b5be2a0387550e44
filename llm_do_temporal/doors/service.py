"""The one service behind all doors: start, wait, questions, decide, result, cancel, for one person or program.

Owns the checks of who may do what, and nothing of any protocol. An id that a principal may not know of is not found,
whoever asks. All state is in the runs: a door may end at any moment, and another one goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel

from llm_do_temporal.client import LlmDoClient, Question, RunSummary
from llm_do_temporal.client.batches import Attach, taken_over
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.decisions import NOT_AS_SHOWN
from llm_do_temporal.client.history import events as history
from llm_do_temporal.client.history.questions import news_at_desk
from llm_do_temporal.client.open_questions import read_readable
from llm_do_temporal.client.question_document import QuestionDocument, document_of
from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.client.views.pending_work import read_tail
from llm_do_temporal.client.views.run_list import list_runs, read_run
from llm_do_temporal.client.views.run_view import RUN_ENDS, event_json
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.desk.state import check_answer
from llm_do_temporal.doors.files import list_files, read_file, save_files
from llm_do_temporal.doors.principal import Principal, TokenScope
from llm_do_temporal.doors.values import Answer, AskedQuestion, Run, RunFile, RunsPage, Start, Worker
from llm_do_temporal.errors import DecisionRefused, KeyMismatch, LlmDoError, UnknownHere, UsageError
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.messages.runs import Batch, BatchItem, StartRunInput
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.redaction.configured_keys import remove_keys

MOST_SEEN = 100
"""Most questions that one request for a wait may name."""
_UNWRITTEN = 2
"""Most events that the server counts and has not written: WorkflowTaskScheduled and WorkflowTaskStarted.

A speculative workflow task, which brings an update, is dropped with them where the update is refused; a transient one,
a further attempt after a failure, has them written once it is completed.
"""


async def wait_for_news(client: LlmDoClient, run: str, *, seen: Collection[str] = ()) -> None:
    """Return once the run has ended, or asks a question whose id is not among `seen`. Raises UsageError, KeyMismatch.

    Reads the history of the run alone, and not of what it has delegated: every question reaches its desk.
    """
    async with translated(run):
        description = await client.temporal.get_workflow_handle(run).describe()
        has_caught_up = is_first = False
        async for event in history.read_chain(client.temporal, run, description.run_id, wait=True):
            if event.event_type in history.ENDS:
                return
            if not has_caught_up:
                has_caught_up = is_first = event.event_id >= description.history_length - _UNWRITTEN
            if has_caught_up and (is_first or news_at_desk(event) is not None):
                is_first = False
                if any(question.id not in seen for question in await client.approvals(run)):
                    return


MAX_WAIT_SECONDS = 50.0
"""Most seconds of one wait: clients of many protocols give up after a minute."""
_MAX_WAITS = 200
"""Waits at once; each holds a connection to the server."""


class DoorService:
    """All that programs can do to runs. Methods raise LlmDoError; an unknown run is an UnknownHere."""

    def __init__(self, client: LlmDoClient, workshop: Path | None, *, embedded: bool = False) -> None:
        """Serve the runs of the client's server; `workshop` is the folder of the workers, None where none is known."""
        self.client = client
        self.workshop = workshop
        self._embedded = embedded
        self._waits = asyncio.Semaphore(_MAX_WAITS)

    async def workers(self, who: Principal) -> list[Worker]:
        """Return the workers that `who` may start: those that are exported, to a person all that can be loaded."""
        who.check(TokenScope.START)
        return await asyncio.to_thread(_workers, self.folder(), exported_only=not who.is_present)

    async def exported_workers(self, who: Principal) -> list[Worker]:
        """Return the exported workers alone, also to a person."""
        who.check(TokenScope.START)
        return await asyncio.to_thread(_workers, self.folder(), exported_only=True)

    async def start(
        self, who: Principal, start: Start, *, key: str | None = None, run: str | None = None
    ) -> tuple[Run, bool]:
        """Start a run, and return it, and whether it is new: the same `key` of the same owner starts one run.

        `run` is the id of the run instead. Raises UsageError where key or id have started something else.
        """
        who.check(TokenScope.START)
        run = run if key is None else run_id(who, start.worker, key)
        return await self.begin(who, start.worker, run, start, lambda warnings: self.prepare(who, start, warnings))

    async def begin(
        self,
        who: Principal,
        worker: str,
        run: str | None,
        request: BaseModel | None,
        prepare: Callable[[list[str]], Awaitable[StartRunInput]],
    ) -> tuple[Run, bool]:
        """Start `prepare(warnings)`'s run under the id `run` (None: a new one). Return it, and whether it is new.

        `prepare` adds what may fail to the list that it is given; the run that is returned has these warnings. Raises
        UsageError where that id has started something else than the `request` asks for.
        """
        who.check(TokenScope.START)
        digest = "" if run is None else await asyncio.to_thread(_digest, request)
        if run is not None and (earlier := await self._earlier(who, run, worker, digest)) is not None:
            return earlier, False
        warnings: list[str] = []
        prepared = await prepare(warnings)
        try:
            run, is_new = await self.client.start(prepared, run=run, digest=digest), True
        except UsageError:
            # Started by the same request a moment ago; without such a run the start itself is wrong.
            if run is None or await self._earlier(who, run, worker, digest) is None:
                raise
            is_new = False
        begun = Run.of(await self.client.status(run))
        return begun.model_copy(update={"warnings": tuple(warnings)}), is_new

    async def prepare(self, who: Principal, start: Start, warnings: list[str]) -> StartRunInput:
        """Return the input of the run's workflow, as far as can be known here; `warnings` get what may fail."""
        who.check(TokenScope.START)
        who.check_mode(start.mode, has_limits=start.limits is not None)
        return await asyncio.to_thread(self._prepared, who, start, warnings)

    async def check_exported(self, worker: str) -> None:
        """Raise UnknownHere for a worker that no program starts."""
        await asyncio.to_thread(_check_exported, self.folder(), worker)

    async def run(self, who: Principal, run: str) -> Run:
        """Return the run as it is now, with its result where it has ended."""
        return await self._with_result(await self.readable(who, run))

    async def wait(self, who: Principal, run: str, seconds: float, *, seen: Collection[str] = ()) -> Run:
        """Return the run once it has ended, or asks a question that is not among `seen`, or the seconds are over.

        At most MAX_WAIT_SECONDS seconds.
        """
        await self.readable(who, run)
        try:
            async with asyncio.timeout(max(0.0, min(seconds, MAX_WAIT_SECONDS))), self._waits:
                await wait_for_news(self.client, run, seen=seen)
        except TimeoutError:
            pass
        return await self.run(who, run)

    async def runs(self, who: Principal, wanted: RunFilter, *, page: str = "") -> RunsPage:
        """Return a part of the runs that pass the filter, open ones first."""
        who.check(TokenScope.READ)
        if not who.sees_all:
            wanted = wanted.model_copy(update={"who": who.name})
        found = await list_runs(self.client.temporal, wanted, page=page)
        runs = tuple(Run.of(one) for one in found.runs if who.sees(one.started_by))
        return RunsPage(runs=runs, following=found.following)

    async def questions(self, who: Principal, run: str | None = None) -> list[AskedQuestion]:
        """Return the questions that wait, of one run or of all that `who` sees, oldest first."""
        if run is not None:
            await self.readable(who, run)
            return [AskedQuestion.of(one) for one in await self.client.approvals(run)]
        who.check(TokenScope.READ)
        if who.sees_all:
            return [AskedQuestion.of(one) for one in await self.client.approvals()]
        waiting = await self.client.runs(RunFilter(state="waiting", who=who.name), limit=sys.maxsize)
        asked = await read_readable(self.client, [one.run for one in waiting if who.sees(one.started_by)])
        found = [one for each in asked.values() for one in each]
        return [AskedQuestion.of(one) for one in sorted(found, key=lambda one: one.asked_at)]

    async def question(self, who: Principal, run: str, question: str) -> AskedQuestion:
        """Return one question, decided or not. Raises UnknownHere."""
        await self.readable(who, run)
        return AskedQuestion.of(await self._question(run, question))

    async def documents(self, who: Principal, run: str) -> list[QuestionDocument]:
        """Return the questions of a run that wait, as people are shown them."""
        await self.readable(who, run)
        return [document_of(one) for one in await self.client.approvals(run)]

    async def document(self, who: Principal, run: str, question: str) -> QuestionDocument:
        """Return one question as people are shown it, decided or not. Raises UnknownHere."""
        await self.readable(who, run)
        return document_of(await self._question(run, question))

    async def decide(self, who: Principal, run: str, question: str, answer: Answer, *, digest: str) -> AskedQuestion:
        """Decide a question as it was shown with this digest, and return it. The first answer of all doors wins.

        Raises DecisionRefused, which says who was first, AccessRefused, and UsageError for what is no answer to it.
        """
        decision = answer.decision_about(question, digest, by=who.name, via=who.via)
        asked = await self.decidable(who, run, question)
        try:
            check_answer(asked, decision)
        except DecisionRefused as wrong:
            raise UsageError(wrong.message, next_step=wrong.next_step) from wrong
        await self.client.decide(run, decision)
        return AskedQuestion.of(await self._question(run, question))

    async def decidable(self, who: Principal, run: str, question: str) -> Question:
        """Return a question that `who` may decide now. Raises AccessRefused, DecisionRefused, UsageError."""
        asked = await self._asked_of(who, run, question)
        if (first := asked.verdict) is not None:
            by = f"{first.decision.done} by {first.by or 'somebody'} at {first.at:%H:%M:%S} UTC"
            raise DecisionRefused(f"'{question}' was already decided: {by}")
        return asked

    @staticmethod
    def check_shown(question: AskedQuestion, digest: str) -> None:
        """Raise DecisionRefused where the digest is not that of the question: something else was shown."""
        if question.digest != digest:
            raise DecisionRefused(NOT_AS_SHOWN, next_step="Read it again.")

    async def undo(self, who: Principal, run: str, question: str, *, digest: str) -> AskedQuestion:
        """Take back the same person's decision about what was shown with this digest, and return the question.

        Raises DecisionRefused where that is too late, or somebody else has decided.
        """
        await self._asked_of(who, run, question)
        await self.client.decide(run, Decision(id=question, decision=None, by=who.name, digest=digest or None))
        return AskedQuestion.of(await self._question(run, question))

    async def cancel(self, who: Principal, run: str) -> Run:
        """Ask the run, and everything below it, to stop, and return it. A program stops only what it has started.

        What somebody else has started is told to those alone who may read.
        """
        who.check(TokenScope.START)
        summary = await self.visible(who, run)
        who.check_own(summary.started_by, "stops")
        if summary.started_by != who.name:
            who.check(TokenScope.READ)
        await self.client.cancel(run)
        return Run.of(await self.client.status(run))

    async def retry(self, who: Principal, run: str, *, key: str | None) -> Run:
        """Start a run for the items of a batch that failed or were never done; the same key, the same run.

        What models have answered, and calls have done, is taken over where that is the same.
        """
        who.check(TokenScope.START)
        summary = await self.visible(who, run)
        who.check_own(summary.started_by, "does again")
        if not who.is_present:
            await self.check_exported(summary.worker)

        async def prepared(_warnings: list[str]) -> StartRunInput:
            left = await self.client.unfinished(run)
            start, _ = await taken_over(self.client.temporal, run, left)
            who.check_mode(start.mode, has_limits=start.limits != Limits())
            return start.model_copy(update={"started_by": who.name})

        name = None if key is None else run_id(who, summary.worker, f"rest of {run}\0{key}")
        return (await self.begin(who, summary.worker, name, None, prepared))[0]

    async def events(self, who: Principal, run: str, *, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of the run behind the number `after`, as they come, until it ends."""
        await self.readable(who, run)
        number = 0
        async with aclosing(self.client.events(run, follow=True)) as events:
            async for event in events:
                if event.type in RUN_ENDS:
                    continue
                number += 1
                if number > after:
                    yield event_json(event, number)

    async def count_events(self, who: Principal, run: str) -> int:
        """Return the number of the run's events so far."""
        await self.readable(who, run)
        return len([event async for event in self.client.events(run) if event.type not in RUN_ENDS])

    async def live_text(self, who: Principal, run: str) -> LiveText | None:
        """Return the end of what the model of the run's entry worker is writing; None where none is, or may be told."""
        await self.readable(who, run)
        tail = await read_tail(self.client.temporal, run)
        return tail if tail is None or remove_keys(tail.text) == tail.text else None

    async def files(self, who: Principal, run: str) -> list[RunFile]:
        """Return the files that the run was given, and that its file tools and reviews have written."""
        await self.readable(who, run)
        return await list_files(self.client, run)

    async def file(self, who: Principal, run: str, origin: str, name: str) -> tuple[bytes, str]:
        """Return the bytes of one of these files, and its media type. Raises UnknownHere."""
        await self.readable(who, run)
        return await read_file(self.client, self.folder(), run, origin, name, as_left=not who.is_present)

    async def _with_result(self, summary: RunSummary) -> Run:
        if summary.ended_at is None:
            return Run.of(summary)
        try:
            return Run.of(summary, await self.client.result(summary.run))
        except LlmDoError as error:
            return Run.of(summary, error=error)

    async def readable(self, who: Principal, run: str) -> RunSummary:
        """Return a run that `who` may read. Raises AccessRefused, UnknownHere."""
        who.check(TokenScope.READ)
        return await self.visible(who, run)

    async def visible(self, who: Principal, run: str) -> RunSummary:
        """Return the run. Raises UnknownHere for one that is not there, or that `who` may not know of; KeyMismatch."""
        unknown = UnknownHere(f"there is no run '{run[:80]}'")
        try:
            summary = await self._summary(run)
        except UsageError:
            raise unknown from None
        except KeyMismatch:
            if who.sees_all:
                raise
            raise unknown from None
        if not who.sees(summary.started_by):
            raise unknown
        return summary

    async def _asked_of(self, who: Principal, run: str, question: str) -> Question:
        """Return a question about which `who` may say something. Raises AccessRefused, UsageError."""
        who.check(TokenScope.DECIDE)
        summary = await self.visible(who, run)
        asked = await self._question(run, question)
        starters = [summary.started_by] if who.is_person else await self._starters(summary)
        who.check_decision(asked, starters)
        return asked

    async def _starters(self, summary: RunSummary) -> list[str | None]:
        """Return who has started the run, and the runs that it does again; None for one that cannot be read."""
        found, seen = [summary.started_by], {summary.run}
        while (run := summary.fork_of or summary.again_of) and run not in seen:
            seen.add(run)
            try:
                summary = await self._summary(run)
            except (UsageError, KeyMismatch):
                return [*found, None]
            found.append(summary.started_by)
        return [*found]

    async def _summary(self, run: str) -> RunSummary:
        """Return the run. Raises UsageError for what is no run, and KeyMismatch."""
        return await read_run(self.client.temporal, run)

    async def _question(self, run: str, question: str) -> Question:
        found = next((one for one in await self.client.questions(run) if one.id == question), None)
        if found is None:
            raise UnknownHere(f"run '{run}' has asked nothing that is called '{question[:40]}'")
        return found

    async def _earlier(self, who: Principal, run: str, worker: str, digest: str) -> Run | None:
        """Return the run that a key has started before; None: it has started none.

        Raises UsageError where that run was started by another request.
        """
        try:
            summary = await self._summary(run)
        except UsageError:
            return None
        # A run that was started without a key has no digest of its request.
        is_same = summary.request == digest if summary.request else summary.worker == worker
        if summary.started_by != who.name or not is_same:
            raise UsageError(
                "this key was used before, with another request",
                next_step="Use another key, or send what was sent with it before.",
            )
        return Run.of(summary)

    def folder(self) -> Path:
        """Return the folder of the workshop. Raises UsageError where none is known."""
        if self.workshop is None:
            raise UsageError("no workshop is known here, and so no workers")
        return self.workshop

    def _prepared(self, who: Principal, start: Start, warnings: list[str]) -> StartRunInput:
        """Return the checked start. Raises LlmDoError for any mistake that can be found here."""
        if not who.is_present:
            _check_exported(self.folder(), start.worker)
        with TemporaryDirectory(prefix="llm-do-door-") as folder:
            root = Path(folder)
            request = StartRequest(
                worker=start.worker,
                read_prompt=lambda: start.prompt,
                read_input=lambda: start.input,
                read_batch=lambda attach: _batch(start, root, attach),
                params=start.params,
                files=save_files(start.attachments, root / "run"),
                were_sent=True,
                model=start.model,
                mode=start.mode,
                limits=start.limits or Limits(),
                review=start.review,
                started_by=who.name,
            )
            return request.prepare(self.workshop, embedded=self._embedded, warn=warnings.append)


def _workers(folder: Path, *, exported_only: bool) -> list[Worker]:
    registry = Registry(load_workshop(folder))
    found: list[Worker] = []
    for name in registry.exported() if exported_only else registry.names():
        try:
            worker = registry.load(name)
        except LlmDoError:
            continue  # `check` tells what is wrong with it; nobody can start it
        files = worker.attachment_policy.max_attachments != 0
        found.append(
            Worker(name=name, description=worker.description, input_schema=worker.input_schema, takes_files=files)
        )
    return found


def _check_exported(folder: Path, worker: str) -> None:
    if worker not in Registry(load_workshop(folder)).exported():
        raise UnknownHere(
            f"there is no exported worker '{worker[:80]}'",
            next_step="Programs start workers with `export: true` in their file.",
        )


def _digest(request: BaseModel | None) -> str:
    """Return the digest of a request's fields, without its `key` and without those that have their default."""
    return digest_of(
        None if request is None else request.model_dump(mode="json", exclude_defaults=True, exclude={"key"})
    )


def run_id(who: Principal, worker: str, key: str) -> str:
    """Return the id of the run that this key of this owner starts. The key itself is in no id."""
    digest = hashlib.sha256(f"{who.name}\0{key}".encode("utf-8", "replace")).hexdigest()
    return f"{worker.replace(':', '-').replace('/', '-')[-60:]}-{digest[:32]}"


def _batch(start: Start, root: Path, attach: Attach) -> Batch | None:
    if not start.items:
        return None
    items = [
        BatchItem(
            name=item.name,
            prompt=item.prompt,
            input=item.input,
            attachments=attach(save_files(item.attachments, root / f"item-{number}")) if item.attachments else (),
        )
        for number, item in enumerate(start.items, 1)
    ]
    return Batch(items=tuple(items), concurrency=start.concurrency)
