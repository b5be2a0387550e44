"""How long `make demo` takes from a fresh clone, and how long it is silent: `python -m benchmarks.fresh_clone COMMIT…`.

Takes the commits in turn, `--rounds` times, each in a clone, a home and a package cache of its own (`--warm`: with one
cache for all, filled beforehand). Output goes to a pipe, which shows less than a terminal. Needs the package index.
Exits 1 when the last commit was silent for 5 s or longer, or took two thirds of the first one's time or more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_SILENT_SECONDS = 5.0
MOST_OF_BEFORE = 2 / 3
_READ_BYTES = 65_536
_EVALUATIONS = "workers/files/evaluations"


@dataclass
class Told:
    """One run of `make demo`."""

    seconds: float = 0.0
    silent: float = 0.0
    """The longest time in which it printed nothing."""
    steps: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """The lines that begin a step, and when they came."""


def main() -> int:
    """Measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", action="store_true", help="with packages in pip's cache")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        shared = Path(cache) if asked.warm else None
        if shared is not None:
            for commit in asked.commits:
                measure(commit, shared)
        told: dict[str, list[Told]] = {commit: [] for commit in asked.commits}
        for _ in range(asked.rounds):
            for commit in asked.commits:
                told[commit].append(measure(commit, shared))
                _say(commit, told[commit][-1])
    return judge(told)


def judge(told: Mapping[str, list[Told]]) -> int:
    """Print the medians; 1 where the last commit is not good enough."""
    print("\n| commit | median | fastest | slowest | longest silence |\n|---|---|---|---|---|")
    for commit, runs in told.items():
        times = sorted(run.seconds for run in runs)
        silent = max(run.silent for run in runs)
        cells = (f"{statistics.median(times):.1f} s", f"{times[0]:.1f} s", f"{times[-1]:.1f} s", f"{silent:.1f} s")
        print(f"| {commit} | {' | '.join(cells)} |")
    medians = [statistics.median(run.seconds for run in runs) for runs in told.values()]
    first, last = medians[0], medians[-1]
    silent = max(run.silent for run in list(told.values())[-1])
    print(f"\nThe last takes {last / first:.0%} of the first; load {os.getloadavg()[0]:.1f}.")
    return int(silent >= MOST_SILENT_SECONDS or (len(told) > 1 and last >= first * MOST_OF_BEFORE))


def measure(commit: str, cache: Path | None) -> Told:
    """`make demo` in a fresh clone of this commit."""
    named = ["git", "-C", ROOT, "rev-parse", f"{commit}^{{commit}}"]
    exact = subprocess.run(named, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, clone], check=True)
        subprocess.run(["git", "-C", clone, "checkout", "--quiet", "--detach", exact], check=True)
        own = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PIP_CACHE_DIR": str(cache or home / "pip")}
        not_ours = ("LLM_DO_", "TEMPORAL_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(not_ours)}
        told = _listen(clone, kept | own)
        if not list((clone / _EVALUATIONS).glob("*.md")):
            raise SystemExit(f"{commit}: `make demo` wrote no evaluations")
        _await_host(clone)
    return told


def _listen(clone: Path, variables: Mapping[str, str]) -> Told:
    told, rest, began = Told(), b"", time.monotonic()
    with subprocess.Popen(
        ["make", "demo"],
        cwd=clone,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        heard = began
        while chunk := os.read(process.stdout.fileno(), _READ_BYTES):
            now = time.monotonic()
            told.silent, heard = max(told.silent, now - heard), now
            *lines, rest = (rest + chunk).split(b"\n")
            told.steps += [(now - began, line.decode()) for line in lines if line.startswith((b"== ", b"+ "))]
    ended = time.monotonic()
    told.seconds, told.silent = ended - began, max(told.silent, ended - heard)
    if process.returncode != 0:
        raise SystemExit(f"`make demo` failed in {clone}")
    return told


def _await_host(clone: Path) -> None:
    """The server in the background leaves by itself; the folder cannot go before it."""
    database = clone / "workers/.llm-do/host.json"
    deadline = time.monotonic() + 60
    while database.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def _say(commit: str, told: Told) -> None:
    print(f"{commit}: {told.seconds:.1f} s, silent for {told.silent:.1f} s", file=sys.stderr, flush=True)
    for at, line in told.steps:
        print(f"  {at:6.1f}  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
