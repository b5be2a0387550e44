"""Cases made of runs: the task, its files, the answer and the decisions of people."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.record.facts import RunFacts
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.errors import EffectFailed, UsageError
from llm_do_temporal.extensions.evaluations import addition
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput, Verdict
from llm_do_temporal.messages.runs import BatchItem
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.blobs import LocalBlobStore

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
FACTS = RunFacts(prompt="Evaluate this deck.\nBe kind.", has_result=True, output={"verdict": "yes"})


def question(
    number: int, tool: str, decision: str | None, *, door: str = "update", note: str = "", **request: Any
) -> Question:
    asked = RequestApprovalInput(
        invocation="r", key=f"k{number}", worker="w", path="main", tool=tool, args={"n": number}, capabilities=(),
        summary="s", **request,
    )  # fmt: skip
    if decision is None:
        return Question(f"a{number}", "r", asked, NOW)
    verdict = Verdict(decision=DecisionKind(decision), args={"n": -number}, note=note, at=NOW, door=door)  # pyright: ignore[reportArgumentType]
    return Question(f"a{number}", "r", asked, NOW, verdict=verdict)


def listed(**changes: Any) -> RunSummary:
    values: dict[str, Any] = {"run": "evaluator-1", "worker": "evaluator", "ended_at": NOW} | changes
    made = object.__new__(RunSummary)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def add(file: Path, facts: RunFacts = FACTS, *, case_id: str = "deck-9", questions: Any = ()) -> addition.AddedCase:
    root = file.parent.resolve()
    read = addition.ReadRun(listed(), facts, list(questions))  # pyright: ignore[reportPrivateUsage]
    blobs = LocalBlobStore(root / "blobs")
    return addition.add_read_run(root / file.name, root, read, blobs, case_id)  # pyright: ignore[reportPrivateUsage]


def attachment(root: Path, path: str, content: bytes) -> Attachment:
    digest = LocalBlobStore(root / "blobs").put_bytes(content)
    return Attachment(path=path, sha256=digest, bytes=len(content), media_type="text/plain")


EXISTING = """\
# Decks that went wrong.
worker: evaluator   # ours
cases:
  - name: deck-1    # the first one
    inputs: Evaluate deck 1.
  # more to come
evaluators: [EqualsExpected]
"""


def test_a_case_is_added_and_all_else_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "decks.eval.yaml"
    file.write_text(EXISTING)
    added = add(file)
    text = file.read_text()
    assert text.replace(
        "  - name: deck-9\n    inputs: |-\n      Evaluate this deck.\n      Be kind.\n"
        "    expected_output:\n      verdict: 'yes'\n",
        "",
    ) == EXISTING  # fmt: skip
    case = load_evaluation(file, tmp_path.resolve()).case("deck-9")
    assert case is not None
    assert (case.prompt, case.expected) == (FACTS.prompt, {"verdict": "yes"})
    assert (added.has_expected, added.decisions, added.other_worker) == (True, 0, "")


def test_a_file_that_is_not_there_is_made_for_the_worker_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "new.eval.yaml"
    add(file)
    assert load_evaluation(file, tmp_path.resolve()).worker == "evaluator"


def test_files_are_copied_beside_the_file_each_under_a_name_of_its_own(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    files = (attachment(root, "/in/deck.txt", b"one"), attachment(root, "/other/deck.txt", b"two"))
    added = add(tmp_path / "new.eval.yaml", RunFacts(prompt="x", input={"n": 1}, attachments=files))
    case = load_evaluation(tmp_path / "new.eval.yaml", root).cases[0]
    assert case.attachments == ("new.files/deck-9/deck.txt", "new.files/deck-9/2/deck.txt")
    assert [path.read_bytes() for path in added.attachments] == [b"one", b"two"]
    assert (case.prompt, case.input, case.expected) == ("x", {"n": 1}, None)


def test_another_file_in_the_place_of_a_copy_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    place = tmp_path / "new.files" / "deck-9"
    place.mkdir(parents=True)
    (place / "b.txt").write_bytes(b"mine")
    files = (attachment(root, "/a.txt", b"one"), attachment(root, "/b.txt", b"two"))
    with pytest.raises(UsageError, match="is there already, and is another file"):
        add(tmp_path / "new.eval.yaml", RunFacts(prompt="x", attachments=files))
    assert (place / "b.txt").read_bytes() == b"mine"
    assert not (place / "a.txt").exists()
    assert not (tmp_path / "new.eval.yaml").exists()


def test_a_folder_that_leads_out_of_the_workshop_takes_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "shop", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "new.files").symlink_to(outside)
    file = attachment(root.resolve(), "/a.txt", b"one")
    with pytest.raises(UsageError, match="leads out of the workshop"):
        add(root / "new.eval.yaml", RunFacts(prompt="x", attachments=(file,)))
    assert list(outside.rglob("*")) == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("evil.eval.yaml", "evil-eval-yaml.txt"),
        ("workshop.yaml", "workshop-yaml.txt"),
        ("Workshop.yaml", "Workshop-yaml.txt"),
        ("x.worker\n", "x-worker.txt"),
        ("x.pyw", "x-pyw.txt"),
        ("x.pyd ", "x-pyd.txt"),
        ("a/evil.EVAL.yaml", "evil-EVAL-yaml.txt"),
        ("evil.worker", "evil-worker.txt"),
        ("tools.PY", "tools-PY.txt"),
        ("__init__.py", "__init__-py.txt"),
        ("own.cpython-311.so", "own-cpython-311-so.txt"),
        (".worker", "worker"),
        (".gitattributes", "gitattributes"),
        ("..x.py", "x-py.txt"),
        ("...", "file"),
    ],
)
def test_the_name_of_a_copy_defines_nothing(tmp_path: Path, given: str, kept: str) -> None:
    facts = RunFacts(prompt="x", attachments=(attachment(tmp_path.resolve(), given, b"x"),))
    added = add(tmp_path / "decks.eval.yaml", facts)
    assert added.attachments == (tmp_path.resolve() / "decks.files" / "deck-9" / kept,)
    assert added.renamed == ((Path(given).name, kept),)
    assert [path.name for path in tmp_path.rglob("*.eval.yaml")] == ["decks.eval.yaml"]


def test_a_yaml_file_where_definitions_are_looked_for_is_called_otherwise(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    root = tmp_path.resolve()
    read = addition.ReadRun(listed(), RunFacts(prompt="x", attachments=(attachment(root, "a.yaml", b"x"),)), [])
    path, blobs = root / "workers" / "a.eval.yaml", LocalBlobStore(root / "blobs")
    added = addition.add_read_run(path, root, read, blobs, "deck-9")
    assert added.renamed == (("a.yaml", "a-yaml.txt"),)


def test_a_name_that_defines_nothing_is_that_of_the_copy(tmp_path: Path) -> None:
    names = ["2026.11.27 Rechnung v1.2.tar.txt", "report.v2.pdf", "trail .", "a.yaml", "new\nline.txt", "2"]
    given = [attachment(tmp_path.resolve(), name, name.encode()) for name in names]
    given += [attachment(tmp_path.resolve(), path, path.encode()) for path in ("/b/report.v2.pdf", "/c/REPORT.v2.pdf")]
    added = add(tmp_path / "decks.eval.yaml", RunFacts(prompt="x", attachments=tuple(given)))
    assert [path.name for path in added.attachments] == [*names, "report.v2.pdf", "REPORT.v2.pdf"]
    assert added.renamed == ()
    assert [path.read_text() for path in added.attachments] == [one.path for one in given]
    case = load_evaluation(tmp_path / "decks.eval.yaml", tmp_path.resolve()).cases[-1]
    assert [tmp_path.resolve() / one for one in case.attachments] == list(added.attachments)


def test_bytes_that_are_gone_are_named(tmp_path: Path) -> None:
    gone = Attachment(path="/a.txt", sha256="e" * 64, bytes=3, media_type="text/plain")
    with pytest.raises(EffectFailed):
        add(tmp_path / "new.eval.yaml", RunFacts(prompt="x", attachments=(gone,)))


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "decks.eval.yaml"
    file.write_text(EXISTING)
    with pytest.raises(UsageError, match=r"'decks\.eval\.yaml' has a case 'deck-1' already"):
        add(file, case_id="deck-1")
    assert file.read_text() == EXISTING


def test_a_file_with_mistakes_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "decks.eval.yaml"
    file.write_text("worker: evaluator\nrepeets: 2\n")
    with pytest.raises(UsageError, match=r"nothing was added to 'decks\.eval\.yaml', which has mistakes"):
        add(file)
    assert file.read_text() == "worker: evaluator\nrepeets: 2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decks.eval.yaml"]


def test_the_evaluation_of_another_worker_is_told(tmp_path: Path) -> None:
    file = tmp_path / "decks.eval.yaml"
    file.write_text(EXISTING.replace("worker: evaluator", "worker: evaluator_2"))
    assert add(file).other_worker == "evaluator_2"


def test_decisions_of_people_are_repeated_as_often_as_they_were_taken() -> None:
    questions = [
        question(1, "write_file", "approve"),
        question(2, "write_file", "approve"),
        question(3, "run_command", "reject", note="not today"),
        question(4, "write_file", "modify"),
        question(5, "write_file", "approve", door="grant"),  # a grant answers again by itself
        question(6, "write_file", "reject", door="timer"),
        question(7, "limits", "approve", account=""),
        question(8, "write_file", None),
        replace(question(9, "write_file", "approve"), again="a10"),
        replace(question(10, "write_file", "modify"), again="a11"),
        question(11, "write_file", "approve"),
    ]
    assert addition.decide_entries(questions) == [
        {"tool": "write_file", "decision": "approve", "times": 2},
        {"tool": "run_command", "decision": "reject", "note": "not today", "times": 1},
        {"tool": "write_file", "decision": "modify", "args": {"n": -4}, "times": 1},
        {"tool": "write_file", "decision": "modify", "args": {"n": -10}, "times": 1},
        {"tool": "write_file", "decision": "approve", "times": 1},
    ]


def test_decisions_stand_in_the_case(tmp_path: Path) -> None:
    file = tmp_path / "new.eval.yaml"
    assert add(file, questions=[question(1, "write_file", "approve")]).decisions == 1
    (entry,) = load_evaluation(file, tmp_path.resolve()).cases[0].decide
    assert (entry.tool, entry.decision, entry.times) == ("write_file", "approve", 1)


@pytest.mark.parametrize(
    ("run", "facts", "says"),
    [
        (listed(ended_at=None), FACTS, "goes on"),
        (listed(), RunFacts(items=(BatchItem(name="a"),)), "is a batch of 1 items"),
    ],
)
def test_runs_that_no_case_can_be_made_of_are_refused(run: RunSummary, facts: RunFacts, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        addition.check_usable(run, facts)


@pytest.mark.parametrize(
    ("name", "says"),
    [("decks.yaml", "does not end with"), ("no/such/decks.eval.yaml", "is no place"), ("../out.eval.yaml", "not in")],
)
def test_an_evaluation_file_lies_in_the_workshop(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "shop").mkdir()
    with pytest.raises(UsageError, match=says):
        addition.place_of(tmp_path / "shop" / name, tmp_path / "shop")  # pyright: ignore[reportPrivateUsage]
