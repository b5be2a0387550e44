"""Question written out: the whole call with its surroundings, and its answer where there is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.cli.options import Location
    from llm_do_temporal.client.question_document import QuestionDocument

_UNCUT = 1_000_000
"""Width of a line in a pipe or a file."""


async def show_question(location: Location, run: str | None, approval: str | None, *, as_json: bool) -> int:
    """Print a question of a run, open or settled. Raises UsageError where there is none."""
    from rich.console import Console

    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, note_shown
    from llm_do_temporal.cli.terminal.question import joined, question_lines
    from llm_do_temporal.client.question_document import document_of, read_background

    if run is None or approval is None:
        raise UsageError("name the run of the approval, too: `approvals RUN a3`")
    async with opened(location, "reading") as session:
        known = await session.client.questions(run)
        question = next((one for one in known if one.id == approval), None)
        if question is None:
            ids = ", ".join(one.id for one in known) or "nothing so far"
            raise UsageError(f"run '{run}' has asked nothing that is called '{approval}'; it has asked {ids}")
        document = document_of(question, None if as_json else await read_background(session.client, question, known))
    if as_json:
        print_json(question.as_json(), pretty=True)
        return 0
    if question.is_open:
        note_shown(run, [ShownQuestion(question.id, question.request.digest)])
    width = width_of(sys.stdout) or _UNCUT
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(joined(question_lines(document, width)))
    sys.stdout.flush()
    say(_state(document, location))
    return 0


def _state(document: QuestionDocument, location: Location) -> str:
    """Return the line about the answer, or about the way to give one."""
    question, verdict = document.question, document.question.verdict
    if verdict is not None:
        note = f": {visible_line(verdict.note, 300)}" if verdict.note else ""
        undone = f"\n{question.undone_words}" if question.again else ""
        return f"\n{visible_line(document.answer_words, 120)}, {verdict.at:%Y-%m-%d %H:%M:%S} UTC{note}{undone}"
    if question.withdrawn:
        return "\nnobody needs an answer any more"
    if document.view is not None:
        return f"\nlook at the changes with: {location.command(document.view.command(question.run, question.id))}"
    return f"\nanswer with: {location.command(f'approve {question.run} {question.id}')}"
