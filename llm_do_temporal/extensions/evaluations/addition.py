"""Case made of a run, and added to an evaluation file: the task, its files, the answer and people's decisions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, cast

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.record.facts import RunFacts, read_facts
from llm_do_temporal.client.views.run_list import RunSummary, read_run
from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.definitions.yaml.documents import parse_yaml
from llm_do_temporal.definitions.yaml.edits import ListPlace
from llm_do_temporal.errors import DefinitionError, LlmDoError, UsageError
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.policy import EVALUATION_SUFFIX
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, blobs_of

CASES = "cases"
_PEOPLE = ("signal", "update", "script")
"""Doors of decisions that a case repeats: what rules and grants answer they answer again."""
_FILES = ".files"
"""Ending of the folder beside an evaluation file in which the files of its cases are, instead of the file's own."""


@dataclass(frozen=True)
class AddedCase:
    """Case that was added."""

    id: str
    file: Path
    attachments: tuple[Path, ...]
    """Files that were copied."""
    decisions: int
    """Number of decisions that it repeats."""
    has_expected: bool
    """Whether the run had an answer, which is now the expected one."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Names of files that their copies could not have, each with that of the copy, which the case's worker gets."""
    other_worker: str = ""
    """Worker of the evaluation, where the run is of another one; empty: it is the same."""


async def add_case(client: LlmDoClient, run: str, file: Path, workshop: Path, *, case_id: str | None) -> AddedCase:
    """Add the run as a case to an evaluation file of the workshop, which is made where there is none.

    `case_id` None is the run's id. Raises UsageError, DefinitionError, EffectFailed, ConnectionFailed and KeyMismatch.
    """
    root, path = await asyncio.to_thread(place_of, file, workshop)
    listed = await read_run(client.temporal, run)
    async with translated(run):
        facts = await read_facts(client.temporal, listed)
    check_usable(listed, facts)
    questions = await client.questions(run)
    blobs = blobs_of(client.temporal.data_converter)
    if facts.attachments and blobs is None:
        raise UsageError("the files of the run are in the workshop's blobs, which are not known here")
    return await asyncio.to_thread(add_read_run, path, root, ReadRun(listed, facts, questions), blobs, case_id or run)


def place_of(file: Path, workshop: Path) -> tuple[Path, Path]:
    """Return the real paths of workshop and evaluation file. Raises UsageError where no such file may be there."""
    root = workshop.resolve()
    if not file.name.endswith(EVALUATION_SUFFIX):
        raise UsageError(f"'{file}' is no evaluation file: its name does not end with '{EVALUATION_SUFFIX}'")
    folder = file.absolute().parent
    if not folder.is_dir() or file.is_symlink():
        raise UsageError(f"'{file}' given with --to is no place for an evaluation file")
    path = folder.resolve() / file.name
    if not path.is_relative_to(root):
        raise UsageError(
            f"'{file}' is not in the workshop '{root}'", next_step="Evaluation files lie in the workshop's folder."
        )
    return root, path


def check_usable(run: RunSummary, facts: RunFacts) -> None:
    """Raise UsageError for a run that no case can be made of."""
    if facts.items:
        raise UsageError(
            f"run '{run.run}' is a batch of {len(facts.items)} items, and a case is one task",
            next_step="Start the worker for one of them, and add that run.",
        )
    if run.ended_at is None:
        raise UsageError(f"run '{run.run}' goes on; a case is made of a run that has ended")
    if KEPT_OUTSIDE in (facts.prompt, facts.output):
        raise UsageError(f"the task or the answer of run '{run.run}' is kept in a blob store that is not known here")


@dataclass(frozen=True)
class ReadRun:
    """Facts and questions of a run that was read."""

    run: RunSummary
    facts: RunFacts
    questions: Sequence[Question]


def add_read_run(path: Path, root: Path, read: ReadRun, blobs: BlobStore | None, case_id: str) -> AddedCase:
    """Add what was read of a run to the file. Raises UsageError, and EffectFailed for a file that is gone."""
    label, facts = path.relative_to(root).as_posix(), read.facts
    before = _text_of(path) if path.exists() else f"worker: {json.dumps(read.run.worker)}\n"
    known = _known(before, label, case_id)
    kept = Path(f"{path.name.removesuffix(EVALUATION_SUFFIX)}{_FILES}") / _folder_name(case_id)
    given = [PurePosixPath(one.path).name for one in facts.attachments]
    names = _free_paths(given, (path.parent / kept).relative_to(root).as_posix(), protection_of(root))
    attachments = [(kept / name).as_posix() for name in names]
    entry = case_entry(case_id, facts, attachments=attachments, decide=decide_entries(read.questions))
    changed = ListPlace(label, (CASES,)).with_items(before, [entry])
    copied = zip(names, facts.attachments, strict=True)
    files = [] if blobs is None else [(path.parent / kept / name, blobs.read(one.sha256)) for name, one in copied]
    with _copied(files, root):
        _replace(path, changed, root)
    return AddedCase(
        case_id,
        path,
        tuple(copy for copy, _ in files),
        decisions=sum(one["times"] for one in entry.get("decide", ())),
        has_expected="expected_output" in entry,
        renamed=tuple((one, copy) for one, copy in zip(given, names, strict=True) if PurePosixPath(copy).name != one),
        other_worker=known if known not in ("", read.run.worker) else "",
    )


def _known(text: str, label: str, case_id: str) -> str:
    """Return the worker that the file names, empty: none. Raises UsageError where it has a case with this id."""
    value = parse_yaml(text, file=label)[0].value
    keys = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    cases = cast("list[Any]", keys.get(CASES)) if isinstance(keys.get(CASES), list) else []
    names = [cast("dict[str, Any]", case).get("name") for case in cases if isinstance(case, dict)]
    if case_id in names:
        raise UsageError(f"'{label}' has a case '{case_id}' already", next_step="Give this one another id: --id ID.")
    return str(keys.get("worker") or "")


def case_entry(
    case_id: str, facts: RunFacts, *, attachments: Sequence[str], decide: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the case as it stands in a file; what is empty is left out."""
    given: dict[str, Any] = {"prompt": facts.prompt, "inputs": facts.input}
    if facts.input is None and facts.prompt:
        # The spelling that other readers of the format know.
        given = {"inputs": facts.prompt}
    entry = {"name": case_id, **given, "attachments": list(attachments)}
    entry |= {"expected_output": facts.output if facts.has_result else None, "decide": [dict(one) for one in decide]}
    return {name: value for name, value in entry.items() if value not in (None, "", [])}


def decide_entries(questions: Iterable[Question]) -> list[dict[str, Any]]:
    """Return the decisions of people as a case repeats them, each as often as it was taken, in their order.

    Answers about limits and reviews are left out: a case has limits of its own, and all of its changes stay aside.
    """
    entries: list[dict[str, Any]] = []
    for question in questions:
        verdict = question.verdict
        if verdict is None or verdict.door not in _PEOPLE:
            continue
        if question.again and verdict.decision is DecisionKind.APPROVE:
            continue
        if question.request.account is not None or question.request.extension is not None:
            continue
        entry: dict[str, Any] = {"tool": question.request.tool, "decision": str(verdict.decision)}
        if verdict.note:
            entry["note"] = verdict.note
        if entry["decision"] == "modify":
            entry["args"] = verdict.args
        if entries and {**entries[-1], "times": 0} == {**entry, "times": 0}:
            entries[-1]["times"] += 1
        else:
            entries.append({**entry, "times": 1})
    return entries


def _folder_name(case_id: str) -> str:
    """Return a name of a folder for a case: letters, digits, dots and dashes of its id."""
    name = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in case_id)
    return name.strip(".") or "case"


def _free_paths(given: Sequence[str], folder: str, protection: Protection) -> list[str]:
    """Return a path below a folder of the workshop for a copy of each file of these names.

    A copy keeps the name, in a folder of its own where another has it already. Whoever gave the file chose its name,
    and names mean something in a workshop: one that defines, or that begins with a dot, is another one.
    """
    names = [_free_name(name, folder, protection) for name in given]
    alone = {name.casefold() for name in names}
    paths: list[str] = []
    for name in names:
        taken = {path.casefold() for path in paths}
        numbers = (f"{number}/{name}" for number in count(2) if str(number) not in alone)
        paths.append(
            name if name.casefold() not in taken else next(one for one in numbers if one.casefold() not in taken)
        )
    return paths


def _free_name(given: str, folder: str, protection: Protection) -> str:
    name = given.lstrip(".") or "file"
    # Without spaces and line ends around it, which patterns of names may pass over.
    bare = name.strip()
    defines = protection.protects(f"{folder}/{bare}") or bare.casefold().endswith(EVALUATION_SUFFIX)
    return f"{bare.replace('.', '-')}.txt" if defines else name


@contextmanager
def _copied(files: Sequence[tuple[Path, bytes]], root: Path) -> Generator[None]:
    """Write the files, and remove them again where the block fails. Raises UsageError where others are there."""
    made: list[Path] = []
    try:
        for path, content in files:
            # Looked at before as well: folders would be made through a link that leads out.
            _check_within(path.parent, root)
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_within(path.parent, root)
            if _create(path, content):
                made.append(path)
        yield
    except (LlmDoError, OSError) as error:
        for path in made:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"'{error.filename}' cannot be written: {error.strerror}") from error
        raise


def _check_within(folder: Path, root: Path) -> None:
    if not folder.resolve().is_relative_to(root):
        raise UsageError(f"'{folder}' leads out of the workshop", next_step="Remove the link.")


def _create(path: Path, content: bytes) -> bool:
    """Write a new file, and return whether it was not there with the same bytes already. Raises UsageError."""
    try:
        # Neither a file nor a link that is there is written to.
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
            raise UsageError(
                f"'{path}' is there already, and is another file", next_step="Give the case another id: --id ID."
            ) from None
        return False
    return True


def _text_of(path: Path) -> str:
    """Return the text with the line ends and the byte order mark that it has."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _replace(path: Path, text: str, root: Path) -> None:
    """Write the whole text in the place of the file, or leave it as it was. Raises UsageError where it has mistakes."""
    part = path.with_name(f"{path.name.removesuffix(EVALUATION_SUFFIX)}.{os.getpid()}{EVALUATION_SUFFIX}")
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        load_evaluation(part, root)
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path)
    except DefinitionError as error:
        raise UsageError(
            f"nothing was added to '{path.relative_to(root)}', which has mistakes: {error.message}",
            next_step="`check` lists all that is wrong in it.",
        ) from error
    finally:
        part.unlink(missing_ok=True)
