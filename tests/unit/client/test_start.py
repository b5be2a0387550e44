"""Starts of runs: what is checked before there is one, files, each looked at once, and what lists show of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient, start_options
from llm_do_temporal.client.start import StartRequest, load_local_worker, template_path
from llm_do_temporal.errors import ConnectionFailed, DefinitionError, UsageError
from llm_do_temporal.messages.runs import Batch, BatchItem, RunMemo, StartRunInput

ITEMS = Batch(
    items=(
        BatchItem(name="rows.jsonl:1", prompt="Reply to Bob\nsoon"),
        BatchItem(name="rows.jsonl:2", input={"n": 2}),
        BatchItem(name="c.pdf"),
    )
)
UNKNOWN = "Namespace default has no mapping defined for search attribute LlmDoState"


def workshop(folder: Path, files: str, asked: str) -> Path:
    """A workshop with one worker, and the `sandbox:` of each."""
    (folder / "workers").mkdir()
    (folder / "src").mkdir()
    (folder / "workshop.yaml").write_text(f"name: my-workshop\n{files}\n", encoding="utf-8")
    (folder / "workers/main.worker").write_text(f"description: x\n{asked}\n---\nDo it.\n", encoding="utf-8")
    return folder


WRITABLE, READONLY, NONE = "sandbox: {root: '.'}", "sandbox: {root: '.', readonly: true}", ""


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        (WRITABLE, ""),
        (WRITABLE, "sandbox: {readonly: true}"),
        (WRITABLE, "sandbox: {readonly: false}"),
        (WRITABLE, "sandbox: {restrict: /src, readonly: true}"),
        (READONLY, ""),
        (READONLY, "sandbox: {readonly: true}"),
        (NONE, ""),
        (NONE, "sandbox: {paths: {input: {root: ./src}}}"),
    ],
)
def test_a_worker_that_narrows_may_be_started(tmp_path: Path, files: str, asked: str) -> None:
    assert load_local_worker(workshop(tmp_path, files, asked), "main").worker.name == "main"


@pytest.mark.parametrize(
    ("files", "asked", "words"),
    [
        (READONLY, "sandbox: {readonly: false}", "'/' is read-only for the caller; a worker cannot make it writable"),
        (READONLY, "sandbox: {paths: {out: {root: out, mode: rw}}}", "asks for mode rw where its caller can only read"),
        (NONE, "sandbox: {restrict: /src}", "asks for files where the caller has none"),
        ("sandbox: {root: src}", "sandbox: {paths: {in: {root: pipeline}}}", "lies outside its caller's files"),
        (WRITABLE, "sandbox: {write_approval: false}", "a worker cannot switch it off"),
    ],
)
def test_one_that_asks_for_more_is_a_mistake_in_its_file(tmp_path: Path, files: str, asked: str, words: str) -> None:
    with pytest.raises(DefinitionError) as wrong:
        load_local_worker(workshop(tmp_path, files, asked), "main")
    assert words in str(wrong.value)
    assert (wrong.value.file, wrong.value.exit_code) == ("workers/main.worker", 8)


@pytest.mark.parametrize(
    ("given", "has_params", "name"),
    [
        # below templates/, from the workshop's folder or from where one is
        ("templates/one.yaml", False, "templates/one.yaml"),
        ("./templates/decks/one.yaml", False, "templates/decks/one.yaml"),
        ("decks/one.yaml", False, "templates/decks/one.yaml"),
        # a file that is not there is looked for by the worker service, which says so
        ("templates/gone.yaml", False, "templates/gone.yaml"),
        # anywhere, with parameters
        ("other/one.yaml", False, None),
        ("other/one.yaml", True, "other/one.yaml"),
        # workers and their files
        ("one", True, None),
        ("workers/main.worker", True, None),
        ("pkg:summarizer.yaml", True, None),
    ],
)
def test_a_yaml_file_is_a_template_by_where_it_lies_or_by_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, has_params: bool, name: str | None
) -> None:
    for file in ("templates/one.yaml", "templates/decks/one.yaml", "other/one.yaml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("system: Judge.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "templates")
    assert template_path(given, tmp_path, has_params=has_params) == name


@pytest.mark.parametrize(("given", "name"), [("templates/one.yaml", "templates/one.yaml"), ("other/one.yaml", None)])
def test_where_no_workshop_is_known_the_path_alone_tells(given: str, name: str | None) -> None:
    assert template_path(given, None, has_params=False) == name


@pytest.fixture(autouse=True)
def no_model_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model but those that a test names."""
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)


def test_an_embedded_service_shares_the_environment_so_the_model_is_checked(tmp_path: Path) -> None:
    folder = workshop(tmp_path, NONE, "")
    with pytest.raises(UsageError, match="no model for worker 'main'"):
        StartRequest(worker="main").prepare(folder, embedded=True)
    assert StartRequest(worker="main").prepare(folder, embedded=False).model is None
    assert StartRequest(worker="main", force_model="test:a").prepare(folder, embedded=True).force_model == "test:a"


def test_a_provider_that_nobody_knows_is_told_before_there_is_a_run(tmp_path: Path) -> None:
    folder, told = workshop(tmp_path, NONE, ""), list[str]()
    StartRequest(worker="main", model="foo:bar").prepare(folder, embedded=True, warn=told.append)
    (line,) = told
    assert line.startswith("no provider 'foo' is known, of the model 'foo:bar': a run may fail")
    StartRequest(worker="main", model="anthropic:x").prepare(folder, embedded=True, warn=told.append)
    assert len(told) == 1
    with pytest.raises(UsageError, match="no provider 'antropic'"):
        StartRequest(worker="main", model="antropic:x").prepare(folder, embedded=True, warn=told.append)


def test_a_model_of_the_start_is_checked_wherever_it_runs_and_that_of_the_workshop_only_beside_the_service(
    tmp_path: Path,
) -> None:
    folder = workshop(tmp_path, "model: antropic:x", "")
    for place in (folder, None):
        with pytest.raises(UsageError, match="no provider 'opnai'"):
            StartRequest(worker="main", model="opnai:gpt-5").prepare(place, embedded=False)
        with pytest.raises(UsageError, match="no provider 'opnai'"):
            StartRequest(worker="main", force_model="opnai:gpt-5").prepare(place, embedded=False)
    assert StartRequest(worker="main").prepare(folder, embedded=False).model is None
    with pytest.raises(UsageError, match="no provider 'antropic'"):
        StartRequest(worker="main").prepare(folder, embedded=True)


def test_text_is_read_after_the_worker_was_found_and_before_the_model_is_checked(tmp_path: Path) -> None:
    read: list[str] = []

    def prompt() -> str:
        read.append("prompt")
        return "go"

    folder = workshop(tmp_path, NONE, "")
    with pytest.raises(DefinitionError):
        StartRequest(worker="nobody", read_prompt=prompt).prepare(folder, embedded=True)
    with pytest.raises(UsageError, match=r"gone\.txt"):
        StartRequest(worker="main", read_prompt=prompt, files=(tmp_path / "gone.txt",)).prepare(folder, embedded=True)
    assert read == []
    with pytest.raises(UsageError, match="no model"):
        StartRequest(worker="main", read_prompt=prompt).prepare(folder, embedded=True)
    assert read == ["prompt"]


def test_where_no_workshop_is_known_files_cannot_be_attached_and_big_values_have_no_place(tmp_path: Path) -> None:
    sent = StartRequest(worker="any", started_by="ada", params={"tone": "dry"}).prepare(None, embedded=False)
    assert (sent.worker, sent.started_by, sent.params, sent.attachments) == ("any", "ada", {"tone": "dry"}, ())
    with pytest.raises(UsageError, match="only be attached in a workshop"):
        StartRequest(worker="any", files=(tmp_path / "a.txt",)).prepare(None, embedded=False)
    with pytest.raises(UsageError, match="can be sent"):
        StartRequest(worker="any", read_prompt=lambda: "x" * 3_000_000).prepare(None, embedded=False)


def test_each_warning_about_the_file_is_told(tmp_path: Path) -> None:
    folder, warnings = workshop(tmp_path, NONE, ""), list[str]()
    (folder / "templates").mkdir()
    (folder / "templates/old.yaml").write_text("system: Judge.\ntools: [Gone_look]\n", encoding="utf-8")
    StartRequest(worker="templates/old.yaml", model="test:a").prepare(folder, embedded=True, warn=warnings.append)
    (warning,) = warnings
    assert "Gone_look" in warning


@pytest.mark.extension("review")
def test_a_branch_that_cannot_take_changes_is_known_before_there_is_a_run(tmp_path: Path) -> None:
    folder = workshop(tmp_path, WRITABLE, "")
    request = StartRequest(worker="main", review="changes", review_branch="review")
    with pytest.raises(UsageError, match="lie in no git work tree"):
        request.prepare(folder, embedded=False)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    with pytest.raises(UsageError, match="has no commit yet"):
        request.prepare(folder, embedded=False)
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "first"], cwd=folder, check=True)
    assert request.prepare(folder, embedded=False).review_branch == "review"


def test_a_start_warns_of_what_the_worker_and_its_callees_will_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegation = "delegation: {helper: {}}"
    folder = workshop(tmp_path, WRITABLE, f"toolsets: {{nowhere.Search: {{}}, own_tools.Kit: {{}}, {delegation}}}")
    # Looking at a package must not run it.
    (folder / "own_tools.py").write_text("raise SystemExit('loaded')\n", encoding="utf-8")
    helper = "description: x\nsandbox: {paths: {in: {root: gone}}}\ntoolsets: {mcp: {desk: {command: [x]}}}\n"
    helper += "model_settings: {temprature: 1}\n"
    (folder / "workers/helper.worker").write_text(f"{helper}---\nHelp.\n", encoding="utf-8")
    (folder / "workers/other.worker").write_text(f"{helper}---\nNot called.\n", encoding="utf-8")
    monkeypatch.setattr("llm_do_temporal.definitions.tools.external.has_mcp", lambda: False)

    def warnings(*, embedded: bool) -> list[str]:
        found: list[str] = []
        request = StartRequest(worker="main", model="test:a")
        request.prepare(folder, embedded=embedded, warn=lambda line: found.append(line))
        return [one for one in found if ".worker:" in one]

    here = warnings(embedded=True)
    assert [one.partition(": ")[2] for one in here] == [
        "toolset 'nowhere.Search' cannot be used, the worker runs without it: there is no module 'nowhere'",
        "'sandbox.paths' is deprecated; write `sandbox: {root: .}` in workshop.yaml and, to narrow it, "
        "`sandbox: {restrict: /gone}` here",
        "no provider is known to have the model setting 'temprature'; it may be refused or ignored",
        "toolset 'desk' cannot be used, the worker runs without it: MCP support is not installed",
        "the folder 'gone' of '/in' does not exist; it is only read, so nothing makes it",
    ]
    assert all(not one.startswith("workers/other") for one in here)
    # The packages of a service elsewhere are not known here.
    assert warnings(embedded=False) == [one for one in here if "cannot be used" not in one]


def test_workers_that_call_each_other_are_looked_at_once(tmp_path: Path) -> None:
    folder = workshop(tmp_path, WRITABLE, "toolsets: {nowhere.Search: {}, delegation: {main: {}, loop: {}, gone: {}}}")
    loop = "description: x\ntoolsets: {nowhere.Search: {}, delegation: {main: {}, loop: {}}}\n---\nGo round.\n"
    (folder / "workers/loop.worker").write_text(loop, encoding="utf-8")
    found = load_local_worker(folder, "main").warnings(installed=True)
    assert [one.partition(":")[0] for one in found] == ["workers/main.worker", "workers/loop.worker"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "sums.csv",
            b"PK\x03\x04\0[Content_Types].xml xl/workbook.xml PK\x05\x06",
            "ml.sheet, not text/csv",
        ),
        ("old.txt", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "its content is application/x-ole-storage, not text/plain"),
        ("names.csv", "Müller".encode("cp1252"), "'names.csv': not all of it is text in UTF-8: 1 places"),
        ("scan.txt", b"%PDF-1.7 %%EOF", None),
        ("names.txt", "Müller".encode(), None),
    ],
)
def test_a_file_that_is_no_text_or_loses_some_is_told_before_there_is_a_run(
    tmp_path: Path, name: str, data: bytes, said: str | None
) -> None:
    folder, told = workshop(tmp_path, NONE, ""), list[str]()
    (tmp_path / name).write_bytes(data)
    StartRequest(worker="main", files=(tmp_path / name,)).prepare(folder, embedded=False, warn=told.append)
    assert [said is not None and said in line for line in told] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("start", "path", "task"),
    [
        ({"prompt": "\n Tidy up \nnow", "input": {"n": 1}}, "main", "Tidy up"),
        ({"input": {"to": "Zoë", "n": 1}}, "main", '{"to": "Zoë", "n": 1}'),
        ({"input": False}, "main/helper", "false"),
        ({"params": {"tone": "dry"}}, "main", '{"tone": "dry"}'),
        ({}, "main", ""),
        ({"input": "x" * 1_000}, "main", '"' + "x" * 199),
        ({"batch": ITEMS}, "main", ""),
        ({"batch": ITEMS}, "main/item-1", "Reply to Bob"),
        ({"batch": ITEMS}, "main/item-2/judge", '{"n": 2}'),
        ({"batch": ITEMS}, "main/item-3", "c.pdf"),
        ({"batch": ITEMS, "prompt": "Be brief."}, "main/item-3", "c.pdf: Be brief."),
        ({"batch": ITEMS, "input": {"n": 1}}, "main/item-1", 'Reply to Bob: {"n": 1}'),
        ({"batch": ITEMS, "input": {"n": 1}}, "main/item-2", '{"n": 2}'),  # the item's own is used instead
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-4", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-0", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-10", "Go"),
        ({"batch": ITEMS, "prompt": "Go"}, "main/item-1x", "Go"),
        ({"prompt": "Go"}, "main/item-1", "Go"),  # a worker that is called item
    ],
)
def test_a_task_is_the_prompt_or_the_input_and_of_an_item_its_own(start: dict[str, Any], path: str, task: str) -> None:
    assert StartRunInput(worker="main", **start).task(path) == task


def test_lists_and_the_server_are_told_the_task() -> None:
    start = StartRunInput(worker="main", input={"n": 1})
    assert RunMemo.of(start).task == '{"n": 1}'
    assert start_options(start, "run")["static_summary"] == 'main: {"n": 1}'


class Namespace:
    """A client of a server that refuses search attributes with this message; None: it takes them."""

    def __init__(self, refusal: str | None) -> None:
        self._refusal = refusal
        self.attempts: list[dict[str, Any] | None] = []

    async def start_workflow(self, *_given: Any, search_attributes: TypedSearchAttributes | None, **_more: Any) -> None:
        """See Client."""
        told: dict[str, Any] | None = (
            None
            if search_attributes is None
            else {pair.key.name: pair.value for pair in cast("Any", search_attributes)}
        )
        self.attempts.append(told)
        if told is not None and self._refusal is not None:
            raise RPCError(self._refusal, RPCStatusCode.INVALID_ARGUMENT, b"")


async def started(namespace: Namespace, runs: int = 2) -> list[dict[str, Any] | None]:
    """The attributes of each attempt to start these runs."""
    client = LlmDoClient(cast("Any", namespace))
    for number in range(runs):
        await client.start(StartRunInput(worker="main"), run=f"run-{number}")
    return namespace.attempts


async def test_a_run_begins_with_its_state_and_its_worker() -> None:
    expected = {"LlmDoState": "running", "LlmDoPendingApprovals": 0, "LlmDoWorker": "main"}
    assert await started(Namespace(None)) == [expected, expected]


async def test_a_namespace_that_does_not_know_them_is_asked_once_and_gets_runs_without() -> None:
    first, *later = await started(Namespace(UNKNOWN))
    assert first is not None
    assert later == [None, None]


async def test_another_refusal_is_an_error() -> None:
    with pytest.raises(ConnectionFailed, match="the task queue is too long"):
        await started(Namespace("the task queue is too long"))


async def test_a_long_path_of_a_template_is_listed_by_its_beginning() -> None:
    namespace = Namespace(None)
    path = f"templates/{'x' * 1_000}.yaml"
    await LlmDoClient(cast("Any", namespace)).start(StartRunInput(worker=path), run="run")
    (told,) = namespace.attempts
    assert told is not None
    assert told["LlmDoWorker"] == path[:255]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"force_model": "offline:plays.py:missing"}, "'offline:plays.py:missing' cannot be used: 'plays.py' has no"),
        ({"model": "offline:echo, offline:gone.py:pitch"}, "'offline:gone.py:pitch' cannot be used: there is no file"),
        ({"force_model": "own"}, "'offline:plays.py:other' cannot be used: 'plays.py' has no function 'other'"),
        ({}, "'offline:plays.py:unmarked' cannot be used: 'unmarked' is not marked"),
    ],
)
def test_a_missing_play_is_a_mistake_before_the_run_begins(tmp_path: Path, given: dict[str, str], says: str) -> None:
    folder = workshop(tmp_path, "model: offline:plays.py:unmarked\nmodels: {own: 'offline:plays.py:other'}", "")
    (folder / "plays.py").write_text("def unmarked(seen):\n    return ''\n\n\nraise SystemExit('it ran')\n")
    with pytest.raises(DefinitionError) as wrong:
        StartRequest(worker="main", **cast("dict[str, Any]", given)).prepare(folder, embedded=True)
    assert says in str(wrong.value)


opened: Counter[str] = Counter()
"""Times that this process has opened each file."""


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(args[0], str | Path):
        opened[str(args[0])] += 1


sys.addaudithook(_note)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workshop with a worker that takes files."""
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)
    (tmp_path / "workshop.yaml").write_text("name: test\nsandbox: {root: .}\n", encoding="utf-8")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/main.worker").write_text("description: x\n---\nDo it.\n", encoding="utf-8")
    return tmp_path


def prepared(folder: Path, *files: Path) -> tuple[Counter[str], list[str]]:
    """Times that each file was opened for a start, and its warnings."""
    told, before = list[str](), opened.copy()
    request = StartRequest(worker="main", files=files, model="offline:echo")
    request.prepare(folder, embedded=True, needs_keys=True, warn=told.append)
    return opened - before, told


def test_a_start_reads_the_workshop_once(shop: Path) -> None:
    times, _ = prepared(shop)
    assert times[str(shop / "workshop.yaml")] == 1


def test_a_start_reads_each_attached_file_once_and_still_doubts_it(shop: Path) -> None:
    deck = shop / "deck.pdf"
    deck.write_bytes(b"%PDF-1.7 cut")
    times, told = prepared(shop, deck)
    assert times[str(deck)] == 1
    assert told == ["models do not get these files as they are: 'deck.pdf': it was cut: its end is missing"]


def test_files_of_an_item_count_with_those_of_the_start(shop: Path) -> None:
    policy = "attachment_policy: {max_total_bytes: 10}"
    (shop / "workers/main.worker").write_text(f"description: x\n{policy}\n---\nDo it.\n", encoding="utf-8")
    file = shop / "six.txt"
    file.write_bytes(b"6 byte")
    worker = load_local_worker(shop, "main")
    of_start = worker.attach([file])
    with pytest.raises(UsageError, match="2 files of together 12 bytes attached"):
        worker.attach([file], beside=of_start)
