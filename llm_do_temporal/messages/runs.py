"""Starting and finishing runs, the items of batches, and invocations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from llm_do_temporal.messages.approvals import DeskState, ScriptedAnswer
from llm_do_temporal.messages.base import ENTRY_PATH, Json, Message, Strict, is_empty, is_false, is_none, read_json
from llm_do_temporal.messages.budget import Spending, Usage, Waits
from llm_do_temporal.messages.conversation import ContinuedInvocation
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker, ReviewMode, RunSettings, Turns
from llm_do_temporal.messages.sizes import MAX_KEYWORD_CHARS, SUMMARY_CHARS
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.budget import Dimension, Limits
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.groups import CallGroup
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.policy.notifications import NotifySettings

DEFAULT_CONCURRENCY = 8
MAX_CONCURRENCY = 500
"""Temporal takes at most 2,000 open children of one workflow; a desk answers all of these."""


BOM = "\ufeff"
"""Mark that some programs write at the beginning of a file."""
_LINE_END = re.compile(r"\r\n|[\r\n]")
_ITEM = re.compile(r"main/item-(\d{1,9})(?:/|$)", re.ASCII)


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers, counted from 1, and without a mark at their beginnings.

    Only carriage returns and line feeds end a line: JSON may have every other separator within a text.
    """
    lines = ((number, line.lstrip(BOM)) for number, line in enumerate(_LINE_END.split(text), 1))
    return [(number, line) for number, line in lines if line.strip()]


def item_path(number: int) -> str:
    """Return the place in the run's tree of the item with this number, counted from 1."""
    return f"main/item-{number}"


def item_of(path: str) -> str:
    """Return the place of the item that an invocation works on, or that of the entry invocation where there is none."""
    return "/".join(path.split("/")[:2]) if path.startswith(item_path(0)[:-1]) else ENTRY_PATH


def item_number(path: str) -> int:
    """Return the number of the item that an invocation at this place works on; 0 where there is none."""
    found = _ITEM.match(path)
    return int(found[1]) if found else 0


class BatchItem(Strict):
    """Item for which the worker is run once."""

    name: str
    """Name for people: that of the file as it was given, or the number of a line."""
    prompt: str = ""
    """Told after the run's own prompt."""
    input: Json = None
    """Used instead of the run's input."""
    attachments: tuple[Attachment, ...] = ()
    """Besides those of the run."""
    unusable: str = Field(default="", exclude_if=is_empty)
    """Reason why its file cannot be attached: the item fails with it, and no worker is started. Empty for any other."""

    @classmethod
    def of_line(cls, name: str, line: str, *, as_json: bool) -> BatchItem:
        """Return the item of a line: its text, or its JSON value. Of JSON, text is a prompt and anything else an input.

        Raises ValueError for a line that is not JSON, or that gives nothing.
        """
        if not as_json:
            return cls(name=name, prompt=line.strip())
        try:
            value = read_json(line)
        except ValueError as error:
            raise ValueError(f"the line is not JSON: {error}") from error
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError("the line gives nothing: write a prompt or an input, or leave the line out")
        return cls(name=name, prompt=value) if isinstance(value, str) else cls(name=name, input=value)


class ItemResult(Message):
    """Outcome of an item."""

    name: str
    status: Literal["completed", "failed"]
    code: str | None = None
    """Name of the error's class, for one that failed."""
    message: str | None = None
    """The beginning of the error."""
    truncated: CutReason | None = Field(default=None, exclude_if=is_none)
    """Reason why its answer was cut; None: it was not."""


class ItemCounts(Message):
    """Number of a batch's items, and of those with an outcome: what lists tell of them with no history read."""

    total: int
    completed: int | None = None
    """None while the run is open, when nobody counts for lists."""
    failed: int = 0

    @classmethod
    def of(cls, batch: Batch, done: Iterable[ItemResult]) -> ItemCounts:
        """Return the counts of a batch of which this is done."""
        statuses = [result.status for result in done]
        return cls(total=len(batch.items), completed=statuses.count("completed"), failed=statuses.count("failed"))

    def with_state(self, state: str) -> str:
        """Return the state of the run together with the counts, like `completed, 1 of 4 failed`."""
        if not self.total:
            return f"{state}, no items"
        if self.completed is None:
            return f"{state}, {self.total} {'item' if self.total == 1 else 'items'}"
        if state == "completed" and self.failed:
            return f"{state}, {self.failed} of {self.total} failed"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{state}, {self.completed} of {self.total} done{failed}"


class ContinuedBatch(Message):
    """Progress of a batch that its workflow takes along when it is continued as new."""

    done: dict[int, ItemResult]
    """Outcomes by the number of the item."""
    usage: Usage
    spending: Spending


class Batch(Strict):
    """The items of a run, and how many are worked on at once."""

    items: tuple[BatchItem, ...] = Field(min_length=1)
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)


class InputFiles(Strict):
    """Files of the workshop that a run reads when it begins, named by their paths below the workshop."""

    attach: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Files that the run is given."""
    each: tuple[str, ...] = Field(default=(), max_length=100)
    """Patterns; each file that matches one is an item of a batch."""
    each_line: str = Field(default="", exclude_if=is_empty)
    """File whose lines are items; empty: there is none."""
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)

    @property
    def makes_items(self) -> bool:
        """Whether the run is a batch."""
        return bool(self.each or self.each_line)

    @property
    def words(self) -> str:
        """The files in words, like `inbox/notes.md, each of decks/*.pdf`."""
        lines = [f"each line of {self.each_line}"] if self.each_line else []
        return ", ".join([*self.attach, *(f"each of {one}" for one in self.each), *lines])

    @property
    def nothing(self) -> str:
        """The reason why there are no items, in words."""
        return f"'{self.each_line}' has no lines" if self.each_line else f"no file matches {' or '.join(self.each)}"


def workflow_id_of(run: str, path: str) -> str:
    """Return the id of the workflow in which the invocation at this place of a run's tree runs.

    The entry invocation runs in the run's own workflow, every other one in a child.
    """
    return run if path == ENTRY_PATH else f"{run}/{path}"


def first_line(text: str) -> str:
    """Return the first line that is not blank, without blanks around it; empty where there is none."""
    return (text.strip().splitlines() or [""])[0].rstrip()


def task_words(prompt: str, given: Json) -> str:
    """Return what people call a piece of work by: first line of its prompt, or else the beginning of its input.

    Empty where there is neither.
    """
    return first_line(prompt) or ("" if given is None else json.dumps(given, ensure_ascii=False)[:SUMMARY_CHARS])


def listed_worker(worker: str) -> str:
    """Return the name of a worker, or the path of a template, as search attributes have it: its beginning."""
    return worker[:MAX_KEYWORD_CHARS]


class InvokeWorkerInput(Message):
    """Start of an invocation: the input of `LlmDoWorker`. That of the entry worker runs in `LlmDoRun`."""

    run: str
    """Workflow id of the run, where the desk is."""
    path: str
    """Position in the tree, like `main/evaluator-2`."""
    depth: int
    worker: PinnedWorker
    settings: RunSettings
    tree: Tree
    """The invocation's own tree, already narrowed."""
    model: str
    """The effective model as `provider:name`."""
    prompt: str = ""
    input: Json = None
    attachments: tuple[Attachment, ...] = ()
    limited: tuple[Dimension, ...] = ()
    """Amounts that the run, a caller or the worker itself limits: the desk is asked before any of it is spent."""
    started_at: datetime | None = None
    """Time at which the clock of its limits began; None without limits."""
    template: CalledTemplate | None = Field(default=None, exclude_if=is_none)
    """The template that the worker was made from; None for a worker of a file of its own."""
    item: str = Field(default="", exclude_if=is_empty)
    """Name of the batch's item that this invocation, or one above it, works on; empty in any other run."""
    layer: CarriedLayer | None = Field(default=None, exclude_if=is_none)
    """Layer of its caller, that it begins from; None: its caller works on the workshop's files."""
    parts: dict[str, Json] = Field(default_factory=dict, exclude_if=is_empty)
    """Values by which extensions take part in the run, by the names of these."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the delegation by its inputs; see `policy.identity`. Empty: the invocation is an entry, or an earlier
    version has begun it."""
    called_by: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it was delegated by; empty: it has none."""
    continued: ContinuedInvocation | None = None
    """State to go on from, if its workflow was continued as new; None for a new invocation."""

    @property
    def asker(self) -> str:
        """Name under which it asks: that of its worker, or the template, which may be called like a worker."""
        return self.worker.name if self.template is None else self.template.name


class ContinuedRun(Message):
    """State of a run that its workflow takes along when it is continued as new."""

    entry: InvokeWorkerInput
    """The entry invocation as it goes on; for a batch, the invocation that its items are made from."""
    notify: NotifySettings = NotifySettings()
    desk: DeskState
    batch: ContinuedBatch | None = None
    """None for a run without a batch."""


class StartRunInput(Strict):
    """Input of `LlmDoRun`. `{"worker": "greeter", "prompt": "hi"}` is enough."""

    worker: str
    """A worker's name; or a template, by its path below the workshop or as `pkg:name`."""
    prompt: str = ""
    input: Json = None
    params: dict[str, str | int | float | bool] = Field(default_factory=dict, exclude_if=is_empty)
    """Values for the parameters of a template."""
    attachments: tuple[Attachment, ...] = ()
    model: str | None = None
    force_model: str | None = None
    environment_model: str | None = None
    mode: Mode | None = None
    started_by: str = ""
    depth: int = Field(default=0, ge=0)
    """The level at which the entry worker runs: above 0 for a run that a tool of another run started."""
    limits: Limits = Limits()
    """Limits of the whole run; each of these is used instead of the workshop's."""
    batch: Batch | None = None
    """Items to run the worker for, each by itself. Prompt, input and attachments are for every one of them."""
    turns: Turns | None = Field(default=None, exclude_if=is_none)
    """Way in which models are asked, if their worker names none; None: as the workshop says."""
    review: ReviewMode | None = Field(default=None, exclude_if=is_none)
    """Review of what the run does; None: as the workshop and its workers say."""
    review_branch: str = Field(default="", exclude_if=is_empty)
    """Git branch that takes accepted changes; empty: the workshop's files do."""
    aside: bool = Field(default=False, exclude_if=is_false)
    """Whether all changes of files stay in a layer, which nobody reviews and nothing commits; it is in the result."""
    parts: dict[str, Json] = Field(default_factory=dict, exclude_if=is_empty)
    """Values by which extensions take part in the run, by the names of these."""
    copies_of: str = Field(default="", exclude_if=is_empty)
    """Run of whose answers and calls it may hold copies; empty: of none."""
    script: tuple[ScriptedAnswer, ...] = Field(default=(), exclude_if=is_empty)
    """Answers of the desk, so that nobody is asked."""
    scripted: bool = Field(default=False, exclude_if=is_false)
    """Whether questions that no answer fits are rejected, instead of waiting for a person."""
    reads: InputFiles | None = Field(default=None, exclude_if=is_none)
    """Files to read before all else: the run goes on as new with what they hold. None: all that it is given is here."""
    again_of: str = Field(default="", exclude_if=is_empty)
    """Run whose items it does again; empty: it is no further attempt."""
    continued: ContinuedRun | None = Field(default=None, exclude_if=is_none)
    """State to go on from, if the run's workflow was continued as new; None for a new run."""

    @property
    def is_batch(self) -> bool:
        """Whether it is a run for several items, known now or once they are read."""
        return self.batch is not None or (self.reads is not None and self.reads.makes_items)

    def task(self, path: str = ENTRY_PATH) -> str:
        """Return what people call the run by, or the item of a batch at this place of its tree.

        Of an item it is the item's own prompt, input or name, and then what the run says to every item. At most
        SUMMARY_CHARS characters; empty for a run without prompt, input and parameters.
        """
        item = self._item_at(path)
        own = "" if item is None else task_words(item.prompt, item.input) or item.name
        given = (self.params or None) if self.input is None else self.input
        shared = task_words(self.prompt, given if item is None or item.input is None else None)
        return ": ".join(filter(None, (own, shared)))[:SUMMARY_CHARS]

    def _item_at(self, path: str) -> BatchItem | None:
        number = item_number(path)
        items = () if self.batch is None else self.batch.items
        return items[number - 1] if 0 < number <= len(items) else None


class RunResult(Message):
    """Result of `LlmDoRun`."""

    output: Json
    """The worker's text, or its structured value; None for a batch."""
    usage: Usage
    items: tuple[ItemResult, ...] | None = None
    """Outcome of each item of a batch; None for other runs. The output of an item is the result of its own workflow."""
    waited: Waits | None = Field(default=None, exclude_if=is_none)
    """Time that the run's questions waited; None where it had none."""
    layer: CarriedLayer | None = Field(default=None, exclude_if=is_none)
    """All changes of a run whose changes stay aside; None: it is no such run, or changed nothing."""
    truncated: CutReason | None = Field(default=None, exclude_if=is_none)
    """Reason why the answer that is the output was cut; None: it was not."""


class InvocationResult(Message):
    """Result of an invocation; `usage` includes that of everything it delegated."""

    output: Json
    usage: Usage
    layer: CarriedLayer | None = Field(default=None, exclude_if=is_none)
    """Layer as the invocation leaves it to its caller; None: it has no layer from its caller, or changed nothing."""
    truncated: CutReason | None = Field(default=None, exclude_if=is_none)
    """Reason why the answer that is the output was cut; None: it was not."""


class InvocationMemo(Message):
    """Memo of a workflow about the invocation in it: facts for lists, so that no history is opened for them."""

    path: str
    worker: str
    depth: int
    model: str
    template: CalledTemplate | None = Field(default=None, exclude_if=is_none)
    """Name and digest of the template that the worker was made from."""
    item: str = Field(default="", exclude_if=is_empty)
    """Name of the batch's item that the invocation works on, at most SUMMARY_CHARS characters."""


class RunMemo(Message):
    """Memo of `LlmDoRun`."""

    worker: str
    started_by: str = ""
    task: str = Field(default="", exclude_if=is_empty)
    """First line of the prompt, or else the input, at most SUMMARY_CHARS characters: what people call the run by.
    Empty without either."""
    started_at: datetime | None = Field(default=None, exclude_if=is_none)
    """Start of the run's first execution; None in that execution itself."""
    items: ItemCounts | None = Field(default=None, exclude_if=is_none)
    """Counts of a batch, complete once the run has ended by itself or was cancelled; None for any other run."""
    fork_of: str = Field(default="", exclude_if=is_empty)
    """Run whose answers it reuses, and holds copies of; empty: it reuses none."""
    again_of: str = Field(default="", exclude_if=is_empty)
    """Run whose items it does again, whatever it reuses; empty: it is no further attempt."""
    request: str = Field(default="", exclude_if=is_empty)
    """Digest of the request of a door that started it under an id of the caller's; empty: nothing compares it."""

    @classmethod
    def of(cls, start: StartRunInput, *, request: str = "") -> RunMemo:
        """Return what a run that starts so, by the request with this digest, shows of itself."""
        return cls(
            worker=start.worker,
            started_by=start.started_by,
            task=start.task(),
            items=None if start.batch is None else ItemCounts(total=len(start.batch.items)),
            fork_of=start.copies_of,
            again_of=start.again_of,
            request=request,
        )


class PendingApprovalMemo(Message):
    """Entry of the memo `llm_do_pending`, readable while no worker service runs."""

    id: str
    invocation: str
    key: str
    worker: str
    path: str
    tool: str
    summary: str
    asked_at: datetime
    deadline: datetime | None = None
    votes: int = 0
    """Number of people who have agreed so far, of `quorum`."""
    quorum: int = 1
    approvers: tuple[str, ...] = ()
    reminded_at: datetime | None = None
    generated: bool = False
    model: str = ""
    digest: str = ""
    """Digest of the question; empty if it has none."""
    item: str = Field(default="", exclude_if=is_empty)
    """Name of the batch's item that the asking invocation works on, at most SUMMARY_CHARS characters."""
    task: str = Field(default="", exclude_if=is_empty)
    """Task of that item, see `StartRunInput.task`; empty in any other run."""
    group: CallGroup | None = Field(default=None, exclude_if=is_none)
    """Group of questions that can be decided together."""
