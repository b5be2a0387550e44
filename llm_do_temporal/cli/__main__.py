"""`llm-do-temporal`: runs one command and turns its end into an exit code.

The only place where errors become lines on stderr; a person's mistake never shows a traceback.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from cyclopts import CycloptsError

from llm_do_temporal.cli.commands.start import STDIN
from llm_do_temporal.cli.output import say_error
from llm_do_temporal.cli.text import PROGRAM, say
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.redaction.configured_keys import guard_process, remove_keys
from llm_do_temporal.telemetry import end_telemetry

_INTERRUPTED = 130
_BROKEN_PIPE = 141
_FLUSH_SECONDS = 2.0


def main() -> None:
    """Run the command line of this process and leave it with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Model output may hold characters that the terminal's encoding, or any, has not.
            stream.reconfigure(errors="backslashreplace")
    # Each attempt to send spans to a collector that is down would be a line between those of the run.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    guard_process()
    code = run_command(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _BROKEN_PIPE
    with suppress(OSError):
        sys.stderr.flush()
    if not end_telemetry(_FLUSH_SECONDS):
        say("note: the OpenTelemetry collector does not answer; what this command did is not in the trace")
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    os._exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an error is printed first."""
    # The parser takes `-` for an option.
    tokens = [STDIN if argument == "-" else argument for argument in arguments]
    try:
        # An extension that cannot be loaded is a mistake like any other.
        from llm_do_temporal.cli.app import app

        _check_text(tokens)
        code: object = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return code if isinstance(code, int) else 0
    except CycloptsError as error:
        return _fail(_usage(error, tokens))
    except LlmDoError as error:
        return _fail(error)
    except BrokenPipeError:
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        return _fail(_unexpected(error))


def _check_text(tokens: Sequence[str]) -> None:
    """Raise UsageError for an argument that is not UTF-8: no message can carry it."""
    for token in tokens:
        if any("\ud800" <= character <= "\udfff" for character in token):
            raise UsageError(
                f"the argument {token[:80]!a} is not UTF-8 text",
                next_step="Type it in UTF-8; if it is the name of a file, rename the file.",
            )


def _fail(error: LlmDoError) -> int:
    if os.environ.get("LLM_DO_DEBUG") == "1":
        sys.stderr.write(remove_keys("".join(traceback.format_exception(error))))
    say_error(error)
    return error.exit_code


def _usage(error: CycloptsError, tokens: Sequence[str]) -> UsageError:
    from llm_do_temporal.cli.app import app

    command = tokens[0] if tokens and tokens[0] in app else None
    help_of = f"{PROGRAM} {command} --help" if command else f"{PROGRAM} --help"
    usage = UsageError(" ".join(str(error).split()), next_step=f"See `{help_of}`.")
    usage.__cause__ = error
    return usage


def _unexpected(error: Exception) -> LlmDoError:
    summary = (str(error).splitlines() or [""])[0]
    wrapped = LlmDoError(
        f"unexpected {type(error).__name__}: {summary}",
        next_step="This is a mistake in the program; LLM_DO_DEBUG=1 shows where.",
    )
    wrapped.__cause__ = error
    return wrapped


if __name__ == "__main__":
    main()
