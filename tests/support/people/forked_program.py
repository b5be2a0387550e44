"""The program in a process of its own that has its modules already: forked from one that loaded them once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOADED = ("llm_do_temporal.cli.__main__", "llm_do_temporal.client.session", "llm_do_temporal.client.start")
_PATIENCE_SECONDS = 120


def run_forked(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run one command as a shell does: in `folder`, with nothing on its standard input."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    streams = folder / ".stdout", folder / ".stderr"
    process = context.Process(target=_run, args=(list(arguments), str(folder), dict(environment), *map(str, streams)))
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode is not None, "it does not end"
    out, err = (stream.read_text(encoding="utf-8") for stream in streams)
    for stream in streams:
        stream.unlink()
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
