"""The entry invocation is made from the start of its run and what the loading of its worker found, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.desk.entry import entry_invocation
from llm_do_temporal.errors import AttachmentRefusal, DelegationRefusal, ModelRefusal
from llm_do_temporal.messages.activities import BuiltInput, LoadedRun
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import Batch, BatchItem, InvokeWorkerInput, StartRunInput
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.budget import Dimension, Limits
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.models import ModelSources
from tests.support.workflow.desk_questions import NOON, WHOLE

TEMPLATE = CalledTemplate(name="decks/one", sha256="1" * 64, params={"tone": "dry"})
ONE_ITEM = Batch(items=(BatchItem(name="one"),))


def loaded(*, worker: dict[str, Any] | None = None, settings: dict[str, Any] | None = None, **more: Any) -> LoadedRun:
    """What loading found: a worker of model `p:a` that sees no file, in a workshop without limits."""
    plain = {"name": "w", "source": "w.worker", "sha256": "0" * 64, "instructions": "Go.", "model": "p:a"}
    known = RunSettings(mode=Mode.INTERACTIVE, rules=ApprovalRules(), models=ModelSources())
    return LoadedRun(
        worker=PinnedWorker.model_validate(plain | (worker or {})),
        settings=known.model_copy(update=settings or {}),
        tree=WHOLE,
        **more,
    )


def entry_of(found: LoadedRun, **start: Any) -> InvokeWorkerInput:
    """The entry invocation of run `r`, which began at noon."""
    return entry_invocation("r", StartRunInput(worker="w", **start), found, started_at=NOON)


def test_it_stands_at_the_root_of_the_tree_of_its_run() -> None:
    entry = entry_of(loaded(), prompt="Hello.", input={"n": 1}, depth=2)
    assert (entry.run, entry.path, entry.depth) == ("r", "main", 2)
    assert (entry.prompt, entry.input, entry.template, entry.continued) == ("Hello.", {"n": 1}, None, None)
    assert entry.worker.name == "w"
    assert entry.model == "p:a"


@pytest.mark.parametrize(
    ("of_run", "own", "limited"),
    [
        (Limits(), Limits(), ()),
        (Limits(turns=2), Limits(), (Dimension.TURNS,)),
        (Limits(turns=2), Limits(tokens=9, turns=1), (Dimension.TURNS, Dimension.TOKENS)),
    ],
)
def test_the_clock_of_its_limits_begins_with_the_run_where_there_are_limits(
    of_run: Limits, own: Limits, limited: tuple[Dimension, ...]
) -> None:
    entry = entry_of(loaded(settings={"limits": of_run}, worker={"limits": own}))
    assert set(entry.limited) == set(limited)
    assert entry.started_at == (NOON if limited else None)


def test_the_prompt_of_a_template_takes_the_place_of_the_prompt_and_the_input_of_the_start() -> None:
    entry = entry_of(loaded(prompt="A deck.", template=TEMPLATE), prompt="Hello.", input={"n": 1})
    assert (entry.prompt, entry.input, entry.template) == ("A deck.", None, TEMPLATE)


@pytest.mark.parametrize(
    ("built", "start", "prompt", "values"),
    [
        # The class has no prompt of its own: its fields are the input, with defaults.
        (BuiltInput(values={"n": 1, "m": 2}), {"prompt": "Hello."}, "Hello.", {"n": 1, "m": 2}),
        (BuiltInput(prompt="Judge 1.", values={"n": 1}), {"prompt": "Hello."}, "Hello.\n\nJudge 1.", None),
        (BuiltInput(prompt="Judge 1.", values={"n": 1}), {"prompt": " \n"}, "Judge 1.", None),
        # Each item of a batch has an input of its own, which is built when the item begins.
        (BuiltInput(prompt="Judge 1.", values={"n": 1}), {"prompt": "All.", "batch": ONE_ITEM}, "All.", {"n": 0}),
    ],
)
def test_typed_input_is_what_its_class_makes_of_it(
    built: BuiltInput, start: dict[str, Any], prompt: str, values: dict[str, Any] | None
) -> None:
    entry = entry_of(loaded(built=built), input={"n": 0}, **start)
    assert (entry.prompt, entry.input) == (prompt, values)


def test_files_that_a_typed_input_attaches_are_left_to_the_workflow() -> None:
    given = Attachment(path="a.pdf", sha256="0" * 64, bytes=1, media_type="application/pdf")
    built = BuiltInput(prompt="Judge.", values={}, attachments=("/b.pdf",))
    assert entry_of(loaded(built=built), attachments=(given,)).attachments == (given,)


@pytest.mark.parametrize(
    ("found", "start", "refusal", "says"),
    [
        (loaded(settings={"max_depth": 2}), {"depth": 3}, DelegationRefusal, "'w'"),
        (
            loaded(),
            {"attachments": (Attachment(path="a.pdf", sha256="0" * 64, bytes=10**12, media_type="application/pdf"),)},
            AttachmentRefusal,
            "worker 'w'",
        ),
        (loaded(worker={"model": None}), {}, ModelRefusal, "no model for worker 'w'"),
    ],
    ids=["too deep", "too large", "without a model"],
)
def test_a_run_that_is_refused_has_no_entry_invocation(
    found: LoadedRun, start: dict[str, Any], refusal: type[Exception], says: str
) -> None:
    with pytest.raises(refusal, match=says):
        entry_of(found, **start)


def test_its_tree_is_the_workshops_narrowed_to_the_sandbox_of_its_worker() -> None:
    assert [mount.root for mount in entry_of(loaded()).tree.mounts] == ["."]
    narrowed = entry_of(loaded(worker={"sandbox": {"paths": {"notes": {"root": "notes", "mode": "ro"}}}})).tree
    assert [mount.root for mount in narrowed.mounts] == ["notes"]
