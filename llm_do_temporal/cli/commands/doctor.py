"""`doctor`: examines the workshop and its server, and says how to mend each fault. Starts nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.text import PROGRAM, visible_line
from llm_do_temporal.errors import DefinitionError, LlmDoError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.maintenance.doctor import Finding
    from llm_do_temporal.definitions.workshop import Workshop

_MARKS = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}
_PAGE_SECONDS = 5


async def doctor(
    *,
    json: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Say what is reachable, registered and missing, and how to mend it. Exits with 1, or 4, where anything is wrong.

    Parameters
    ----------
    json
        Print one object.
    """
    from llm_do_temporal.client.maintenance.doctor import examine_server
    from llm_do_temporal.client.session import task_queue

    findings = [_program()]
    folder, found = _folder(location)
    findings += found
    if folder is not None:
        # Connecting mends the modes of our own files, so they are looked at before.
        findings += _state(folder)
    findings += await examine_server(location.connection(), folder, task_queue())
    if folder is not None:
        findings += _of_workshop(folder)
    if json:
        good = not any(one.status == "error" for one in findings)
        print_json({"ok": good, "findings": [one.as_json() for one in findings]}, pretty=sys.stdout.isatty())
    else:
        for one in findings:
            print("\n".join(_lines(one)))
    return max((one.exit_code for one in findings if one.status == "error"), default=0)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{_MARKS[finding.status]}  {finding.what:17}  {visible_line(finding.message)}"
    if finding.next_step is not None:
        yield f"{'':28}{visible_line(finding.next_step)}"


def _program() -> Finding:
    from llm_do_temporal.client.maintenance.doctor import Finding

    python = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("program", "ok", f"{PROGRAM} {version(PROGRAM)}, Python {python}")


def _folder(location: Location) -> tuple[Path | None, list[Finding]]:
    """Return the workshop's folder and no finding, or None and the reason why there is none."""
    from llm_do_temporal.client.maintenance.doctor import Finding

    try:
        return location.find_workshop(), []
    except (DefinitionError, UsageError) as error:
        return None, [Finding("workshop", "error", error.message, error.next_step or "")]


def _of_workshop(folder: Path) -> Iterator[Finding]:
    from llm_do_temporal.client.maintenance.doctor import Finding, examine_commits
    from llm_do_temporal.definitions.check import check_workshop
    from llm_do_temporal.definitions.workshop import parse_workshop

    problems = check_workshop(folder)
    errors = sum(one.severity == "error" for one in problems)
    if problems:
        status = "error" if errors else "warning"
        text = f"{folder}: {errors} errors, {len(problems) - errors} warnings"
        yield Finding("workshop", status, text, f"See `{PROGRAM} check {folder}`.")
    else:
        yield Finding("workshop", "ok", str(folder))
    yield _disk(folder)
    yield from examine_commits(folder)
    workshop = parse_workshop(folder)[0]
    yield from _variables(workshop)
    yield _isolation(workshop)
    yield from _page(workshop)


def _state(folder: Path) -> Iterator[Finding]:
    """Check whether other accounts can use the files that runs leave in the workshop, and close them."""
    from llm_do_temporal.client.embedded.server import state_folder
    from llm_do_temporal.client.maintenance.doctor import Finding
    from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
    from llm_do_temporal.storage.private_files import faults, mend_modes

    found = faults(folder / STATE_FOLDER)
    if not found:
        return
    try:
        mend_modes(state_folder(folder))
    except UsageError as error:
        yield Finding("privacy", "error", error.message, error.next_step)
    except OSError as error:
        yield Finding("privacy", "error", f"{found[0]}, which cannot be changed: {error.strerror}")
    else:
        yield Finding("privacy", "warning", f"{found[0]}; they are closed now", "Who could read it may have done so.")


def _disk(folder: Path) -> Finding:
    from llm_do_temporal.client.embedded.server import state_folder
    from llm_do_temporal.client.maintenance.doctor import Finding

    try:
        state = state_folder(folder)
        with tempfile.NamedTemporaryFile(dir=state):
            pass
    except (UsageError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        step = "Attachments and the embedded server's database are kept there; make it writable."
        return Finding("disk", "error", f"{folder / '.llm-do'} cannot be written: {reason}", step)
    return Finding("disk", "ok", f"{state} can be written")


def _variables(workshop: Workshop) -> Iterator[Finding]:
    """Check whether variables are set; their values are not looked at."""
    from llm_do_temporal.client.maintenance.doctor import Finding
    from llm_do_temporal.definitions.models import needed_variables

    also = [model for model in (os.environ.get("LLM_DO_MODEL"),) if model]
    needed = needed_variables(workshop, *also)
    for variables, whose in needed.items():
        users = ", ".join(whose)
        present = [name for name in variables if os.environ.get(name)]
        if present:
            yield Finding("variable", "ok", f"{present[0]} is set here, for {users}")
        else:
            step = "Set it where the worker service runs; the workshop's own gets what `start` or `dev` had."
            yield Finding("variable", "warning", f"{' or '.join(variables)} is not set here, for {users}", step)
    if not needed:
        yield Finding("variable", "ok", "the models and targets that the workshop names need no keys")


def _isolation(workshop: Workshop) -> Finding:
    from llm_do_temporal.client.maintenance.doctor import Finding, chosen
    from llm_do_temporal.client.session import required_isolation
    from llm_do_temporal.policy.shell import Isolation
    from llm_do_temporal.sandbox.bubblewrap import choose_bwrap

    choice = choose_bwrap()
    if choice.program is not None:
        return Finding("isolation", "ok", f"commands run in {chosen(choice.program, choice.passed_over)}")
    required = Isolation.REQUIRED in (workshop.config.shell.isolation, required_isolation())
    what = "commands are refused" if required else "commands run with all rights of the worker service"
    step = "Install bubblewrap on a Linux that allows user namespaces, or in a container that does."
    message = "; ".join(["bubblewrap does not work on this machine", *choice.passed_over, what])
    return Finding("isolation", "error" if required else "warning", message, step)


def _page(workshop: Workshop) -> Iterator[Finding]:
    """Check whether the approvals page answers, if the workshop or a variable names its address."""
    from llm_do_temporal.client.maintenance.doctor import Finding
    from llm_do_temporal.definitions.workshop import page_address

    try:
        url = page_address(workshop.config, os.environ)
        if url is None:
            return
        status = _ask(url)
    except LlmDoError as error:
        yield Finding("page", "error", error.message, error.next_step)
        return
    yield Finding("page", "ok", f"{url} answers ({status})")


def _ask(url: str) -> int:
    """Return the HTTP status with which the page answers a visitor without a token. Raises UsageError for no answer."""
    import httpx2

    try:
        return httpx2.get(url, timeout=_PAGE_SECONDS, follow_redirects=False).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise UsageError(
            f"{url} does not answer ({type(error).__name__})",
            next_step=f"Start the page with `{PROGRAM} ui`, or correct `ui_url` in workshop.yaml or LLM_DO_UI_URL.",
        ) from error
