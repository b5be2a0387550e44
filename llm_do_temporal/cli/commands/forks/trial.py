"""`try`: a run whose changes stay aside, and, on saving a file of the worker, a fork of it beside the run before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.commands.start import LimitFlags, Overrides, TypedStart, by_itself, prepare_start, read_params
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.saved_files import SavedFiles, until_saved
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.messages.runs import StartRunInput


async def try_worker(
    worker: str,
    prompt: str | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative="")] = False,
    attach: Annotated[tuple[Path, ...], Parameter(name=["--attach", "-a"])] = (),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    model: str | None = None,
    approve_all: Annotated[bool, Parameter(negative="")] = False,
    limits: LimitFlags = LimitFlags(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Run a worker with all changes of files kept aside; with --watch again on each save of its files, side by side.

    Nothing that it writes gets into the workshop's files. Ctrl-C ends it, and stops what still runs.

    Parameters
    ----------
    worker
        The worker to run: its name, or one worker file, to run by itself.
    prompt
        What to tell it; `-` reads it from stdin.
    watch
        Stay, and on each save of the worker's file, or of one that it names, fork the last run with it: turns that it
        does not change are not asked again. Shows the difference in answer, files and cost.
    attach
        A file to attach; may be repeated.
    input_json
        Structured input, as JSON or @FILE.
    param
        A value for a parameter of a template, NAME=VALUE; may be repeated.
    model
        Model of workers that name none, as provider:name or an alias.
    approve_all
        Approve every call that needs approval. What is blocked stays blocked.
    """
    overrides = Overrides(model=model, approve_all=approve_all)
    typed = TypedStart(worker, prompt, attach, input_json, read_params(param), overrides, limits, aside=True)
    single = Path(worker) if watch else None
    typed, location = by_itself(typed, location)
    assert typed.worker is not None
    request = prepare_start(typed, typed.worker, location)
    from llm_do_temporal.cli.session import opened

    async with opened(location) as session:
        file = None if single is None else _file_of(session, typed.worker, single)
        trial = _Trial(session, location)
        code = await trial.begin(request, None if file is None else SavedFiles(lambda: _files_of(session, file)))
        return code if file is None or trial.is_left else await trial.go_on(file)


class _Trial:
    """Run that is tried, and its forks, one after the other."""

    def __init__(self, session: Session, location: Location) -> None:
        self.is_left = False
        """Whether a person has left, so that nothing is tried any more."""
        self._session = session
        self._location = location
        self._run = ""
        self._saved: SavedFiles | None = None

    async def begin(self, request: StartRunInput, saved: SavedFiles | None) -> int:
        """Do the first run; `saved` has the worker's files as they are now. Return the exit code."""
        from llm_do_temporal.cli.reports.difference import aside_lines
        from llm_do_temporal.client.differences.reader import read_account

        self._saved = saved
        self._run = await self._session.client.start(request)
        say(f"run {self._run}, with its changes kept aside")
        code = await self._attend(self._run)
        if not self.is_left:
            account = await read_account(self._session.client.temporal, self._run)
            patch = self._location.command(f"export --patch {self._run}")
            for line in aside_lines(account, patch):
                say(line)
        return code

    async def go_on(self, file: Path) -> int:
        """Fork the last run on each save of the worker's files, until a person leaves; return the exit code."""
        assert self._saved is not None
        while not self.is_left:
            if not await until_saved(self._saved, f"save {file} to try it again; Ctrl-C ends"):
                break
            try:
                await self._fork(file)
            except (DefinitionError, UsageError) as error:
                from llm_do_temporal.cli.output import say_error

                say_error(error)
        say(f"the last run was {self._run}")
        return 0

    async def _fork(self, file: Path) -> None:
        """Fork the last run with the file as it is now, and show what that has changed."""
        from llm_do_temporal.cli.reports.difference import print_difference
        from llm_do_temporal.cli.reports.fork import plan_lines
        from llm_do_temporal.client.differences.reader import read_difference
        from llm_do_temporal.client.forks.fork import ForkRequest, plan_fork
        from llm_do_temporal.storage.places import workshop_blobs

        session, before = self._session, self._run
        workshop = session.workshop
        assert workshop is not None
        plan = await plan_fork(session.client.temporal, before, ForkRequest(worker=file), workshop)
        for line in (*(f"warning: {one}" for one in plan.warnings), *plan_lines(plan)):
            say(line)
        fork = await session.client.start(plan.prepared(workshop_blobs(workshop)))
        say(f"run {fork}")
        await self._attend(fork)
        self._run = fork
        if not self.is_left:
            print_difference(await read_difference(session.client.temporal, before, fork))

    async def _attend(self, run: str) -> int:
        """Stay with the run to its end, its questions asked here; a run that is left is stopped."""
        from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

        stay = choose_stay("text")
        code = await attend(self._location, run, AttendOptions("until_end" if stay != "live" else stay))
        if (await self._session.client.status(run)).ended_at is None:
            self.is_left = True
            await self._session.client.cancel(run)
            say(f"asked run {run} to stop")
        return code


def _file_of(session: Session, worker: str, typed: Path) -> Path:
    """Return the file that defines the worker. Raises UsageError for one that no person edits here."""
    from llm_do_temporal.client.embedded.single_file import is_worker_file
    from llm_do_temporal.client.start import load_local_worker

    if is_worker_file(str(typed)) and typed.is_file():
        return typed
    if session.workshop is None:
        raise UsageError(
            "--watch looks at the worker's file, and no workshop is known here",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    file = session.workshop / load_local_worker(session.workshop, worker).worker.source
    if not file.is_file():
        raise UsageError(f"'{worker}' has no file in the workshop that could be saved", next_step="Leave --watch out.")
    return file


def _files_of(session: Session, file: Path) -> tuple[Path, ...]:
    """Return the files that define the worker of `file`."""
    from llm_do_temporal.definitions.registry.registry import worker_files
    from llm_do_temporal.definitions.workers.places import WorkerPlace, named_worker

    path = file.resolve()
    workshop = path.parent if session.workshop is None else session.workshop.resolve()
    root = workshop if path.is_relative_to(workshop) else path.parent
    return worker_files(WorkerPlace(named_worker(path), path, root))
