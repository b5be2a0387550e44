"""Policy of restarts: a child process that has ended is started again, each time a little later, and not for ever."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible

STEADY_SECONDS = 60.0
"""Time after which the start of a child has succeeded: failures before it no longer count."""
MOST_FAILURES = 5
"""Failures in a row after which a child is not started again."""
_MISCONFIGURED = (UsageError.exit_code, DefinitionError.exit_code)
"""Exit codes of a worker service that cannot be served as it is configured."""
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
_LOG_BYTES = 16 * 1024
_LOG_LINES = 3
_LINE_CHARS = 300


class Restarts:
    """Restarts of one child process, whose output is added to `log`."""

    def __init__(self, child: str, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._child = child
        self._log = log
        self._clock = clock
        self._failures = 0
        self._was_steady = False
        self._begun = 0.0
        self._log_begin = 0

    def begin(self) -> None:
        """Note that the child is about to be started."""
        self._begun = self._clock()
        self._log_begin = self._log.stat().st_size if self._log.exists() else 0

    def delay_after(self, code: int | None) -> float:
        """Return the seconds to wait before the next start, after an end with this exit code; None: it did not answer.

        A negative code is a signal. Raises UsageError where the child is not started again: after too many failures in
        a row, and at once for a mistake in its configuration that it has reported at its first start.
        """
        if self._clock() - self._begun >= STEADY_SECONDS:
            self._failures, self._was_steady = 0, True
        self._failures += 1
        misconfigured = code in _MISCONFIGURED and not self._was_steady
        if misconfigured or self._failures >= MOST_FAILURES:
            times = "at its start" if misconfigured else f"{self._failures} times in a row"
            raise UsageError(
                f"the {self._child} ended {times} ({_told(code)}): {self.reason()}",
                next_step=f"Correct that and start the command again; {STATE_FOLDER}/{self._log.name} has more.",
            )
        return min(_FIRST_DELAY * 2 ** (self._failures - 1), _LONGEST_DELAY)

    def reason(self) -> str:
        """Return the last lines that the child has logged since its start, without the lines of a traceback."""
        try:
            with self._log.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(self._log_begin, size - _LOG_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return "no reason given"
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith((" ", "Traceback "))]
        shown = (made_visible(line)[:_LINE_CHARS] for line in remove_keys("\n".join(lines[-_LOG_LINES:])).splitlines())
        return " ".join(shown) or "no reason given"


def _told(code: int | None) -> str:
    if code is None:
        return "no answer"
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
