"""The program in a process of its own that has its modules already: forked from one that loaded them once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.support.patience import COMMAND_SECONDS

_LOADED = (
    "llm_do_temporal.cli.__main__",
    "llm_do_temporal.extensions.export.report",
    "llm_do_temporal.extensions.export.report",
    "llm_do_temporal.cli.reports.show",
    "llm_do_temporal.cli.session",
    "llm_do_temporal.cli.terminal.attend",
    "llm_do_temporal.client.embedded.host",
    "llm_do_temporal.extensions.maintenance.doctor",
    "llm_do_temporal.extensions.maintenance.removal",
    "llm_do_temporal.client.session",
    "llm_do_temporal.client.start",
    "llm_do_temporal.definitions.check",
)
"""What commands load when they need it; whatever is missing here is loaded by the fork."""


def fork(loaded: Sequence[str], target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process for a function, forked from one that has loaded these modules, and return it.

    A test process has one such origin, with the modules that were named first; others are loaded by each fork.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(loaded))
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def run_forked(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run one command as a shell does: in `folder`, with nothing on its standard input.

    It has its own process, arguments, environment and streams, and leaves as the program does. What a command loads,
    and what it costs to load, is not seen here.
    """
    with tempfile.TemporaryDirectory(prefix="llm-do-forked-") as place:
        streams = Path(place, "stdout"), Path(place, "stderr")
        process = fork(_LOADED, _run, list(arguments), str(folder), dict(environment), *map(str, streams))
        process.join(COMMAND_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"{arguments} does not end")
        out, err = (stream.read_text(encoding="utf-8") if stream.exists() else "" for stream in streams)
    return subprocess.CompletedProcess(list(arguments), process.exitcode, out, err)


def _run(arguments: list[str], folder: str, environment: dict[str, str], out: str, err: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, out, err)):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv = ["llm-do-temporal", *arguments]
    from llm_do_temporal.cli.__main__ import main

    main()
