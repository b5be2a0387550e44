"""Reasons why a toolset cannot be used, in words for a person.

Owns what is told of a server that does not begin, cannot be reached or refuses: never a path, an address or a header.
Called where toolsets are used; the transports of servers note here what the errors of their libraries do not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePath
from signal import Signals

from llm_do_temporal.activities.external_calls import why_no_answer
from llm_do_temporal.activities.external_output import logged
from llm_do_temporal.activities.runtime.failures import causes_of
from llm_do_temporal.messages.external import McpServer
from llm_do_temporal.redaction.configured_keys import remove_keys

CONNECT_SECONDS = 45
"""Seconds for the first answer of a server: a program has to be loaded, perhaps on a busy machine."""
_NO_BEGIN = "Failed to initialize server session"
"""Text of the library for a server that has not answered in time."""
_MOST_SAID = 200
_WITH_KEY = ("LocalProtocolError", "UnicodeEncodeError")
"""Classes of errors of headers; their messages may quote a key."""


@dataclass
class ServerNote:
    """Last sign of its server that a transport saw and that explains a failure; None: there is none."""

    text: str | None = None

    def answered(self, status: int) -> None:
        """Note the HTTP status of an answer; a good one explains nothing."""
        known = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
        self.text = None if 200 <= status < 300 else f"its server answered with HTTP status {status}{known}"

    def broken(self, words: str, *, sent: bool) -> None:
        """Note a connection that failed, in the words of the HTTP library; not `sent`: it was never made."""
        what = "the connection to its server broke" if sent else "its server cannot be reached"
        self.text = f"{what}: {_said(words) or 'it took too long'}"

    def ended(self, code: int) -> None:
        """Note the end of a program: its exit code, or the negative number of the signal that ended it."""
        how = f"exit code {code}" if code >= 0 else _signal(-code)
        self.text = f"its program ended with {how}"


def why_unusable(server: McpServer, error: BaseException, note: ServerNote) -> str | None:
    """Return why a server cannot be used. None: nothing is known but the class of the error."""
    for cause in (error, *causes_of(error)):
        kind = type(cause).__name__
        if isinstance(cause, OSError) and server.command and cause.filename == server.command[0]:
            return _not_started(server.command[0], cause)
        if str(cause) == _NO_BEGIN:
            return f"its server did not answer within {CONNECT_SECONDS} s"
        if kind in _WITH_KEY:
            return "one of its headers has characters that HTTP does not carry"
    if note.text is not None:
        return note.text
    why = why_no_answer(error)
    if why is not None:
        return f"its server {why}"
    said = getattr(getattr(error, "error", None), "message", None)
    return f"its server refuses: {_said(said)}" if isinstance(said, str) and said.strip() else None


def _not_started(program: str, error: OSError) -> str:
    name = f"its program '{logged(PurePath(program).name)}'"
    if isinstance(error, FileNotFoundError):
        return f"{name} is missing where the worker service runs"
    return f"{name} cannot be started: {error.strerror}"


def _said(text: str) -> str:
    return remove_keys(logged(text.strip()[:_MOST_SAID]))


def _signal(number: int) -> str:
    return f"signal {Signals(number).name}" if number in set(Signals) else f"signal {number}"
