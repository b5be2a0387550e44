"""Text that a model wrote, made safe to show: a terminal obeys control characters, a person cannot see some others.

Called by every module here that prints. Must not change text that goes to a file or a pipe.

Programs that start this one speak through its pipes: a person at a terminal is told so, and Ctrl-C ends it.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible, shown_name, shown_value, with_codes_apart

PROGRAM = "llm-do-temporal"


def composed_block(text: str) -> str:
    """Return lines whose parts are visible already; what is still hidden is written out, but for line ends and tabs."""
    return made_visible(text.replace("\r\n", "\n").expandtabs(4))


def visible_block(text: str) -> str:
    """Return a stranger's text of several lines; hidden characters are written out, but for line ends and tabs."""
    return visible_source(text.replace("\r\n", "\n"))


def visible_source(text: str) -> str:
    """Return lines of a file or of a change; carriage returns are written out, too: a change of line ends is seen."""
    return made_visible(with_codes_apart(text.expandtabs(4)))


def visible_line(text: str, limit: int = 2_000) -> str:
    """Return text on one line, cut at `limit` characters, without keys; line ends and tabs are written out too."""
    text = remove_keys(text)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return made_visible(cut, "\n\t").replace("\n", "\\n").replace("\t", "\\t")


def name_line(path: str) -> str:
    """Return a path as people are shown it, without keys."""
    return shown_name(remove_keys(path))


def value_line(text: str, limit: int = 2_000) -> str:
    """Return a value on one line as people are shown it, cut at `limit` characters, without keys."""
    shown = shown_value(remove_keys(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def printed_table(text: str, file: Path | None) -> str:
    """Return CSV as it is written: a file gets a mark, without which Excel does not read it as UTF-8; a pipe gets the
    text as it is; for a terminal, hidden characters are written out."""
    if file is not None:
        from llm_do_temporal.client.record.results import BOM

        return f"{BOM}{text}"
    return visible_block(text) if sys.stdout.isatty() else text


def say(text: str) -> None:
    """Print text for a person on stderr, without the values of keys."""
    print(composed_block(remove_keys(text)), file=sys.stderr, flush=True)


_INTERRUPTED = 130


def check_packages(what: str, extra: str, *modules: str) -> None:
    """Raise UsageError where a package of an extra is not installed."""
    if any(find_spec(module) is None for module in modules):
        raise UsageError(
            f"the packages for {what} are not installed",
            next_step=f"Install them: pip install '{PROGRAM}[{extra}]', or from a checkout "
            f"pip install './{PROGRAM}[{extra}]'",
        )


def begin_pipes(who: str) -> None:
    """Say at a terminal who starts this; from here on Ctrl-C ends the process, also while a thread waits for stdin."""
    signal.signal(signal.SIGINT, _leave)
    with suppress(AttributeError, ValueError):  # closed
        if sys.stdin.isatty():
            say(f"{who} starts this; it speaks JSON on stdin; Ctrl-C ends it")


def _leave(_number: int, _frame: object) -> NoReturn:
    # Each message was flushed as it was written; a flush here could wait for a lock that this thread holds.
    os._exit(_INTERRUPTED)
