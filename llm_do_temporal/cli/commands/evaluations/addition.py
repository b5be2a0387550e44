"""`eval add`: a case made of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say, visible_line


async def add(
    run: str,
    /,
    *,
    to: Path,
    case_id: Annotated[str | None, Parameter(name="--id")] = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Make a case of a run: its task, its files, its answer as the expected one, and the decisions that people took.

    The case stands at the end of the file's cases; comments and order of the file stay as they are. Attached files are
    copied into a folder beside it, by their names; a name that would define something there is changed, and told. Look
    at the answer before you keep it: the run may have been wrong.

    Parameters
    ----------
    run
        The run, which has ended.
    to
        The evaluation file, NAME.eval.yaml in the workshop; one that is not there is made.
    case_id
        Id of the case; default: that of the run.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.evaluations.addition import add_case

    workshop = location.find_workshop()
    async with opened(location) as session:
        added = await add_case(session.client, run, to, workshop, case_id=case_id)
    say(f"added case '{added.id}' to {added.file.name}{_with(len(added.attachments), added.decisions)}")
    if not added.has_expected:
        say("the run has no answer, so nothing is expected of the case: write `expected_output:` or evaluators")
    for given, copy in added.renamed:
        say(
            f"the copy of '{visible_line(given, 300)}' is called '{visible_line(copy, 300)}', and the worker of the "
            "case is told that name: the other one defines something in a workshop, or begins with a dot"
        )
    if added.other_worker:
        say(f"the evaluation is of '{added.other_worker}', and the run was of another worker")
    return 0


def _with(files: int, decisions: int) -> str:
    parts = [
        f"{number} {word if number == 1 else words}"
        for number, word, words in ((files, "file", "files"), (decisions, "decision", "decisions"))
        if number
    ]
    return f", with {' and '.join(parts)}" if parts else ""
