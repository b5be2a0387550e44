"""What `make demo` runs: evaluates the sample pitch decks, and says all the time how far it is."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKSHOP = Path("workers")
DECKS = WORKSHOP / "files/pipeline"
EVALUATIONS = WORKSHOP / "files/evaluations"
COMMAND = ("start", "pitch_orchestrator", "evaluate every deck", "--workshop", str(WORKSHOP), "--approve-all")
QUIET_SECONDS = 2.0
"""How long nothing is said, at most."""
_POLL_SECONDS = 0.1


def say(text: str) -> None:
    """Tell the person something."""
    print(text, flush=True)


def written() -> dict[str, int]:
    """The evaluations there are, and when each was written, in nanoseconds."""
    return {path.name: path.stat().st_mtime_ns for path in sorted((ROOT / EVALUATIONS).glob("*.md"))}


def follow(process: subprocess.Popen[bytes]) -> int:
    """Say what is written, and every now and then that it goes on, until the command ends; returns its exit code."""
    before, seen, said = written(), 0, time.monotonic()
    began = said
    while True:
        code = process.poll()
        new = [name for name, at in written().items() if before.get(name) != at]
        if len(new) > seen or time.monotonic() - said > QUIET_SECONDS:
            say(f"   {len(new)} evaluations are written, after {time.monotonic() - began:.0f} s")
            seen, said = len(new), time.monotonic()
        if code is not None:
            return code
        time.sleep(_POLL_SECONDS)


def main() -> int:
    """Run it; exits as the command does."""
    decks = len(list((ROOT / DECKS).glob("*.pdf")))
    say(f"== evaluating {decks} pitch decks from {DECKS}, with a Temporal server of its own and a script for a model")
    say(f"   llm-do-temporal {' '.join(word if ' ' not in word else repr(word) for word in COMMAND)}")
    program = Path(sys.executable).with_name("llm-do-temporal")
    with subprocess.Popen([program, *COMMAND], cwd=ROOT) as process:
        # At a terminal the command itself shows what goes on.
        code = process.wait() if sys.stdin.isatty() and sys.stderr.isatty() else follow(process)
    if code == 0:
        say("\nThe evaluations are here:")
        say("\n".join(f"{EVALUATIONS / name}" for name in written()))
    return code


if __name__ == "__main__":
    sys.exit(main())
