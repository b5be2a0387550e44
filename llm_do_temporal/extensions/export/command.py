"""`logs` and `export`: a run as its histories have it, to read or to keep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.files import check_place, form_of, write_whole
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import printed_table, say
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.extension import installed
from llm_do_temporal.redaction.configured_keys import remove_keys

if TYPE_CHECKING:
    from llm_do_temporal.client.session import Session
    from llm_do_temporal.extensions.export.report import Exported

ExportFormat = Literal["md", "json", "html", "csv"]
_FORMS: dict[str, tuple[ExportFormat, ...]] = {
    ".md": ("md",),
    ".json": ("json",),
    ".html": ("html",),
    ".htm": ("html",),
    ".csv": ("csv",),
}


async def logs(
    run: str,
    /,
    *,
    path: str | None = None,
    follow: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Print what happened in a run, line by line in the order in which it happened.

    Parameters
    ----------
    run
        Id of the run.
    path
        Only of this invocation and those below it, like main/deck_reader-1.
    follow
        Go on until the run ends.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.terminal.attend import ConnectionLost, while_served

    async with opened(location, "decision" if follow else "reading") as session:
        await session.client.status(run)
        try:
            await while_served(session, _print_log(session, run, path, follow=follow))
        except ConnectionLost as lost:
            again = location.command(f"logs {run}{' --follow' if follow else ''}")
            raise ConnectionFailed(str(lost), next_step=f"The run is safe; read on with: {again}") from lost
    return 0


async def export(
    run: str,
    /,
    *,
    format_: Annotated[ExportFormat | None, Parameter(name="--format")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    patch: Annotated[bool, Parameter(name="--patch")] = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Write a run down: transcripts, tree, approvals with who decided what and when, and costs; or its results as CSV.

    Parameters
    ----------
    run
        Id of the run.
    format_
        Markdown, JSON, one page of HTML that needs nothing else, or CSV with one row for each item of a batch; default:
        the format of FILE's suffix, without one md.
    output
        The file to write; an ordinary file is replaced. Default: stdout.
    patch
        Write the changes of its open review, those that it has kept aside, or those of its last commit, as a patch for
        `git apply` instead.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.export.report import read_exported

    if output is not None:
        check_place(output, "--output")
    if patch and format_ is not None:
        raise UsageError("--patch has a format of its own; leave --format out")
    form: ExportFormat = "md" if patch else form_of(output, format_, _FORMS, "md")
    async with opened(location, "reading") as session:
        if patch:
            text = await _read_patch(session, run)
        elif form == "csv":
            text = printed_table(await _read_table(session, run), output)
        else:
            text = remove_keys(_render(await read_exported(session.client, run), form))
    if output is None:
        print(text, end="", flush=True)
    else:
        write_whole(output, text, "--output")
        say(f"wrote {output}")
    return 0


async def _read_table(session: Session, run: str) -> str:
    from llm_do_temporal.client.connections import translated
    from llm_do_temporal.client.record.results import read_results, results_csv
    from llm_do_temporal.client.views.run_list import read_run

    temporal = session.client.temporal
    listed = await read_run(temporal, run)
    async with translated(run):
        results = await read_results(temporal, run)
    left = sum(result.item.is_open for result in results)
    if left:
        say(f"{left} of {len(results)} results are not there: the run is {listed.status}")
    return results_csv(run, results)


async def _read_patch(session: Session, run: str) -> str:
    from llm_do_temporal.cli.text import visible_block

    found = [await one.read_patch(session.client, run, session.workshop) for one in installed()]
    text = next((one for one in found if one is not None), None)
    if text is None:
        raise UsageError("no extension that keeps changes for a review is installed here")
    if remove_keys(text) != text:
        raise UsageError(
            "the changes have the value of a configured key in them, and no patch is written of that",
            next_step="Take the key out of the files: `review RUN --edit PATH`.",
        )
    # A pipe gets every byte; a terminal would obey control characters that a model wrote.
    return visible_block(text) if sys.stdout.isatty() else text


def _render(exported: Exported, kind: ExportFormat) -> str:
    from llm_do_temporal.cli.output import dump_json

    if kind == "json":
        return dump_json(exported.as_json(), pretty=True) + "\n"
    from llm_do_temporal.extensions.export.report import render_html, render_markdown

    return render_markdown(exported) if kind == "md" else render_html(exported)


async def _print_log(session: Session, run: str, path: str | None, *, follow: bool) -> None:
    from llm_do_temporal.extensions.export.report import concerns, is_within, log_lines

    known: set[str] = set()
    async for event in session.client.events(run, follow=follow):
        known.add(event.path)
        if concerns(event, path):
            print(remove_keys("\n".join(log_lines(event))), flush=True)
    if path is not None and not any(is_within(one, path) for one in known):
        places = ", ".join(sorted(known - {""})[:20])
        raise UsageError(f"run '{run}' has no invocation '{path}'", next_step=f"It has: {places}.")
