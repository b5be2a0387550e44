"""The pages that start a run from a form, do again what a batch has left over, and stop a whole run."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.batches import taken_over
from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.messages.base import read_json
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import run_address
from llm_do_temporal.ui.guard import MAX_BODY_BYTES
from llm_do_temporal.ui.requests import UiSettings, client_of, see_other, settings_of

MODES = tuple(mode.value for mode in Mode)
_KEY = re.compile(r"[0-9a-f]{16}")
_MAX_NAME_CHARS = 200


@dataclass(frozen=True)
class StartForm:
    """Fields of the form as they were typed."""

    worker: str = ""
    prompt: str = ""
    input: str = ""
    model: str = ""
    mode: str = ""
    review: str = ""
    """`changes` to review all changes of files together; empty: as the workshop and the worker say."""
    key: str = ""
    """Part of the run's id, so that a form that is sent twice starts one run."""


async def show_form(request: Request) -> Response:
    """Show an empty form, or a form for the worker that the address names."""
    return await _form(request, StartForm(worker=request.query_params.get("worker", ""), key=secrets.token_hex(8)))


async def start_run(request: Request) -> Response:
    """Start the run of the form and go to its page, or show what was warned of before; if it cannot be started, show
    the form again with the reason."""
    form: FormData = request.state.form
    typed = StartForm(**{name: text_of(form, name) for name in StartForm.__dataclass_fields__})
    files = [each for each in form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    warnings: list[str] = []
    try:
        check_key(typed.key)
        with TemporaryDirectory(prefix="llm-do-upload-") as folder:
            paths = await _save(files, Path(folder))
            sent = await asyncio.to_thread(_prepared, typed, paths, settings_of(request), request.state.user, warnings)
        run = f"{typed.worker.replace(':', '-').replace('/', '-')}-{typed.key}"
        await start_once(client_of(request), sent, run)
    except LlmDoError as error:
        return await _form(request, typed, error, had_files=bool(files))
    if warnings:
        return render(request, "started.html", run=run, warnings=warnings)
    return see_other(run_address(run))


def check_key(key: str) -> None:
    """Raise UsageError for a form without the key that was put into it."""
    if not _KEY.fullmatch(key):
        raise UsageError("this form is not complete; open the page again")


async def start_once(client: LlmDoClient, sent: StartRunInput, run: str) -> None:
    """Start the run, unless the same form has done so already. Raises LlmDoError."""
    try:
        await client.start(sent, run=run)
    except UsageError:
        # The same form again has its run already. Without one, the start itself was wrong.
        await client.status(run)


def _prepared(
    typed: StartForm, files: Sequence[Path], settings: UiSettings, user: str, warnings: list[str]
) -> StartRunInput:
    """Return the request that is sent. Raises LlmDoError for any mistake that can be found here.

    `warnings` get what `start` warns of, such as files that models do not get as they are.
    """
    if not typed.worker:
        raise UsageError("no worker was chosen")
    if typed.mode and typed.mode not in MODES:
        raise UsageError(f"there is no mode '{typed.mode}'; there are {', '.join(MODES)}")
    request = StartRequest(
        worker=typed.worker,
        read_prompt=lambda: typed.prompt,
        read_input=lambda: _json(typed.input),
        files=tuple(files),
        were_sent=True,
        model=typed.model.strip() or None,
        mode=Mode(typed.mode) if typed.mode else None,
        review="changes" if typed.review else None,
        started_by=user,
    )
    return request.prepare(settings.workshop, embedded=settings.embedded, warn=warnings.append)


def _json(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return read_json(text)
    except ValueError as error:
        raise UsageError(f"the input is not JSON: {error}") from error


async def _save(files: Sequence[UploadFile], folder: Path) -> list[Path]:
    """Save the files, each in a folder of its own: names may be the same, or lead elsewhere. Raises UsageError."""
    paths: list[Path] = []
    for number, file in enumerate(files):
        name = PurePosixPath((file.filename or "").replace("\\", "/")).name
        if name in ("", ".", "..") or "\0" in name or len(name.encode("utf-8", "replace")) > _MAX_NAME_CHARS:
            raise UsageError("a file has a name that cannot be used; rename it")
        path = folder / str(number) / name
        path.parent.mkdir()
        data = await file.read()
        await asyncio.to_thread(path.write_bytes, data)
        paths.append(path)
    return paths


def _workers(workshop: Path) -> list[str]:
    return Registry(load_workshop(workshop)).names()


async def _form(
    request: Request, typed: StartForm, error: LlmDoError | None = None, *, had_files: bool = False
) -> Response:
    workshop = settings_of(request).workshop
    workers = [] if workshop is None else await asyncio.to_thread(_workers, workshop)
    return render(
        request,
        "start.html",
        status=200 if error is None else 400,
        typed=typed,
        workers=workers,
        modes=MODES,
        takes_files=workshop is not None,
        max_mebibytes=MAX_BODY_BYTES >> 20,
        error=error,
        had_files=had_files,
    )


MOST_NAMES = 200
"""Items that are listed by name."""
_WORKER_CHARS = 60
"""Most characters of a worker's name in the id of a run."""


async def confirm_retry(request: Request) -> Response:
    """Show what is left over of a batch, and ask whether to do it again."""
    run = request.path_params["run"]
    left = await client_of(request).unfinished(run)
    assert left.batch is not None, "what is unfinished is a batch"
    items = left.batch.items
    return render(
        request,
        "retry.html",
        run=run,
        task=left.task() or run,
        names=[item.name for item in items[:MOST_NAMES]],
        total=len(items),
        unusable={item.name: item.unusable for item in items if item.unusable},
        key=secrets.token_hex(8),
    )


async def start_retry(request: Request) -> Response:
    """Start a run for what is left over, as it was when the batch was started, and go to its page."""
    run = request.path_params["run"]
    client = client_of(request)
    key = text_of(request.state.form, "key")
    check_key(key)
    left = await client.unfinished(run)
    again = f"{left.worker.replace(':', '-').replace('/', '-')[-_WORKER_CHARS:]}-{key}"
    if text_of(request.state.form, "reuse") == "yes":
        # The new run goes on from what the one before has come to.
        left, _ = await taken_over(client.temporal, run, left)
    await start_once(client, left.model_copy(update={"started_by": request.state.user}), again)
    return see_other(run_address(again))


async def confirm_stop(request: Request) -> Response:
    """Ask whether the run is really to be stopped."""
    run = request.path_params["run"]
    return render(request, "stop.html", run=run, status_now=await read_run(client_of(request).temporal, run))


async def stop_run(request: Request) -> Response:
    """Ask the run, and everything below it, to stop."""
    run = request.path_params["run"]
    await client_of(request).cancel(run)
    return see_other(run_address(run))


routes = [
    Route("/start", show_form, methods=["GET"]),
    Route("/start", start_run, methods=["POST"]),
    Route("/runs/{run}/retry", confirm_retry, methods=["GET"]),
    Route("/runs/{run}/retry", start_retry, methods=["POST"]),
    Route("/runs/{run}/cancel", confirm_stop, methods=["GET"]),
    Route("/runs/{run}/cancel", stop_run, methods=["POST"]),
]
