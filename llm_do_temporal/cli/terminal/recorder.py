"""`--log-events` and `--trace-dir`: events and spans of a run, written while a command stays with it.

Owns the options and the places of the output. A run never notices that it is recorded.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.output import EventLines
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from temporalio.api.history.v1 import HistoryEvent

    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.client.traces import TraceFile, Tracer

_RECORD = Group("Record", sort_key=5)


@Parameter(name="*", group=_RECORD)
@dataclass(frozen=True, kw_only=True)
class Recording:
    """Records of a run that a command writes beside its result."""

    log_events: Annotated[bool, Parameter(help="Print every event on stderr as it happens, as a JSON line.")] = False
    trace_dir: Annotated[
        Path | None, Parameter(help="Write OpenTelemetry spans of the run to a new file in this folder.")
    ] = None
    trace_binary: Annotated[bool, Parameter(help="Put the bytes of attachments into the trace, too.")] = False

    @property
    def wanted(self) -> bool:
        """Whether anything is recorded at all."""
        return self.log_events or self.trace_dir is not None

    def check(self) -> None:
        """Raise UsageError for options that cannot be used, before there is a run."""
        if self.trace_dir is None:
            if self.trace_binary:
                raise UsageError("--trace-binary says nothing without --trace-dir DIR")
            return
        from llm_do_temporal.client.traces import make_trace_folder

        make_trace_folder(self.trace_dir)


NOTHING = Recording()


class Recorder:
    """Records one run, over as many connections as it takes."""

    def __init__(self, recording: Recording, run: str, location: Location) -> None:
        self._recording = recording
        self._run = run
        self._location = location
        self._tracer: Tracer | None = None
        self._file: TraceFile | None = None
        self.lines = EventLines(enabled=recording.log_events, stream=sys.stderr)

    def begin(self, session: Session) -> None:
        """Begin with a connection, the first or a later one."""
        folder = self._recording.trace_dir
        if folder is None or self._file is not None:
            return
        from llm_do_temporal.client.traces import TraceFile, Tracer
        from llm_do_temporal.storage.places import workshop_blobs

        blobs = None if session.workshop is None else workshop_blobs(session.workshop)
        self._file = TraceFile(folder, self._run, datetime.now(UTC))
        self._tracer = Tracer(self._run, blobs=blobs, binary=self._recording.trace_binary)

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        """Record an event of the run's histories, in the order in which they are read."""
        if self._tracer is not None and self._file is not None:
            self._file.write(self._tracer.take(workflow_id, event))

    async def catch_up(self, session: Session) -> None:
        """Record all that the histories hold now."""
        if not self._recording.wanted:
            return
        from llm_do_temporal.client.views.follower import Follower

        self.lines.begin_reading()
        past = Follower(session.client.temporal, self._run, wait=False, tap=self.take)
        for event in sorted([event async for event in past.events()], key=lambda event: event.order):
            self.lines.tell(event)

    def close(self) -> None:
        """Write the spans that are still open, and print the path of the trace."""
        if self._tracer is None or self._file is None:
            return
        still_open = self._tracer.rest()
        self._file.write(still_open)
        self._file.close()
        words = f"trace {self._file.path}"
        if still_open:
            again = self._location.command(f"watch {self._run} --trace-dir {self._recording.trace_dir}")
            words += f" holds what was seen so far; the whole of it later with: {again}"
        say(words)
        self._file = None


async def record_so_far(recording: Recording, run: str, location: Location) -> None:
    """Record the run as far as it has come, without staying."""
    if not recording.wanted:
        return
    from llm_do_temporal.cli.session import opened

    recorder = Recorder(recording, run, location)
    async with opened(location) as session:
        recorder.begin(session)
        await recorder.catch_up(session)
    recorder.close()
