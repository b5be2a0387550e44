"""What a command leaves behind to outlive it, its time, its cancellation or the worker service."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.messages.activities import ShellInput, WriteFileInput
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.people.forked_program import fork
from tests.support.workshops.hostile_commands import FILES, Ground

_UNIQUE = itertools.count(random.SystemRandom().randrange(10**7, 10**8))
WAYS = [working_bwrap(), None]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no reaper of orphans")


@pytest.fixture(params=WAYS, ids=lambda way: "isolated" if way else "bare")
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    return Ground(tmp_path / "workshop", request.param, FILES)


def sleeper() -> tuple[str, Callable[[], bool]]:
    """A `sleep` that nobody else has, and whether it runs anywhere on this machine."""
    seconds = f"{next(_UNIQUE)}.5"

    def runs() -> bool:
        return any(one.info["cmdline"] == ["sleep", seconds] for one in psutil.process_iter(["cmdline"]))

    return f"sleep {seconds}", runs


async def until(found: Callable[[], bool]) -> None:
    """Wait for what has to happen; the test's own time limit is the only one."""
    while not found():  # noqa: ASYNC110 - a process of somebody else's sets no event
        await asyncio.sleep(0.02)


_FORK = (
    "import os,sys\nfor _ in range({times}):\n if os.fork(): os._exit(0)\n os.setsid()\n"
    "os.execvp('sleep', sys.argv[1:])"
)

LEFTOVERS = {
    "background": "{sleep} &",
    "no hangup": "nohup {sleep} >/dev/null 2>&1 &",
    "own session": "setsid {sleep} &",
    "own session, forked": "setsid -f {sleep}",
    "session in a session": "setsid -f setsid -f {sleep}",
    "own group": "set -m; {sleep} &",
    "double fork": "(({sleep} &) &)",
    "daemon": 'python3 -c "' + _FORK.format(times=2) + '" {sleep}',
    "daemon of a daemon": 'python3 -c "' + _FORK.format(times=6) + '" {sleep}',
    "closed streams": "setsid -f {sleep} <&- >&- 2>&-",
    "ignores the signals": "setsid -f sh -c 'trap \"\" TERM HUP INT USR1; {sleep}; {sleep}'",
    "stopped": "setsid -f {sleep} & sleep 0.2; pkill -STOP -f '^{sleep}'",
    "another folder": "cd / && setsid -f {sleep}",
    "no environment": "env -i setsid -f {sleep}",
    "another name": "setsid -f sh -c 'exec -a x {sleep}; exec {sleep}'",
    "a crowd": "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do setsid -f {sleep}; done",
    "starts others for ever": "setsid -f sh -c 'while :; do setsid -f {sleep}; sleep 0.01; done'",
    "nested shells": 'sh -c \'sh -c "sh -c \\"setsid -f {sleep}\\""\'',
    "a shell that waits": "setsid -f sh -c '{sleep} & wait'",
    "tells its reaper to end": "setsid -f {sleep}; kill -TERM $PPID",
    "tells its reaper to end otherwise": "setsid -f {sleep}; kill -QUIT $PPID; kill -USR1 $PPID; kill -ALRM $PPID",
    "tells its reaper that it is an orphan": "setsid -f {sleep}; kill -CONT $PPID",
    "tells its reaper to abort": "setsid -f {sleep}; kill -ABRT $PPID; kill -RTMIN $PPID",
    "stops its own group": "setsid -f {sleep}; kill -HUP 0",
}


def command(kind: str, sleep: str) -> str:
    return LEFTOVERS[kind].replace("{sleep}", sleep)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", LEFTOVERS)
async def test_nothing_outlives_its_command(ground: Ground, kind: str) -> None:
    sleep, runs = sleeper()
    await ground.script(command(kind, sleep) + "\necho done", timeout=20)
    await until(lambda: not runs())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["background", "own session, forked", "daemon", "ignores the signals", "a crowd"])
async def test_nothing_outlives_the_time_of_its_command(ground: Ground, kind: str) -> None:
    sleep, runs = sleeper()
    result = await ground.script(f"{command(kind, sleep)}\n{sleep}", timeout=1)
    assert result.timed_out
    await until(lambda: not runs())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["background", "own session, forked", "daemon of a daemon", "ignores the signals"])
async def test_nothing_outlives_a_cancelled_command(ground: Ground, kind: str) -> None:
    sleep, runs = sleeper()
    environment = ActivityEnvironment()
    script = f"{command(kind, sleep)}\n{sleep}"
    asked = ShellInput(argv=("sh", "-c", script), tree=FILES, cwd="/", timeout_seconds=600)
    running = asyncio.ensure_future(environment.run(ground.activities.run_command, asked))
    await until(runs)
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not runs())


@pytest.mark.sampled(1)
async def test_a_command_that_stops_its_reaper_is_ended_all_the_same(ground: Ground) -> None:
    sleep, runs = sleeper()
    script = f"setsid -f {sleep}; kill -STOP $PPID; {sleep}"
    result = await ground.script(script, timeout=1)
    assert result.timed_out
    await until(lambda: not runs())


def service(ground: Ground, script: str) -> BaseProcess:
    """Start a process of its own that runs a script as a worker service does."""
    return fork([Ground.__module__], _serve, ground.folder, ground.bwrap, script)


def _serve(folder: Path, bwrap: str | None, script: str) -> None:
    asyncio.run(Ground(folder, bwrap, FILES).script(script, timeout=600))


async def killed(process: BaseProcess, number: signal.Signals) -> None:
    """Send a service the signal, and return once it has ended of it."""
    assert process.pid is not None
    os.kill(process.pid, number)
    await asyncio.to_thread(process.join)
    assert process.exitcode == -number


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "kind", ["background", "own session, forked", "daemon", "closed streams", "ignores the signals", "no environment"]
)
async def test_nothing_outlives_a_service_that_is_killed(ground: Ground, kind: str, number: signal.Signals) -> None:
    sleep, runs = sleeper()
    script = f"{command(kind, sleep)}\n{sleep}"
    process = service(ground, script)
    try:
        await until(runs)
    finally:
        await killed(process, number)
    await until(lambda: not runs())


STOPPING = {
    "itself": "kill -STOP $PPID; exec {sleep}",
    "and what left": "setsid -f {sleep}; kill -STOP $PPID; {sleep}",
    "by its terminal's signal": "setsid -f {sleep}; kill -TSTP $PPID; kill -TTIN $PPID; {sleep}",
    "and wakes it": "setsid -f {sleep}; kill -STOP $PPID; kill -CONT $PPID; kill -STOP $PPID; {sleep}",
    "and is stopped": "setsid -f {sleep}; kill -STOP $PPID; kill -STOP $$",
    "and a daemon": "setsid -f setsid -f sh -c '{sleep}; {sleep}'; kill -STOP $PPID; {sleep}",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", STOPPING)
async def test_a_reaper_that_was_stopped_wakes_when_the_service_is_killed(tmp_path: Path, kind: str) -> None:
    sleep, runs = sleeper()
    script = STOPPING[kind].replace("{sleep}", sleep)
    process = service(Ground(tmp_path / "workshop", None, FILES), script)
    try:
        await until(runs)
        if "terminal" not in kind:
            await until(lambda: any(one.status() == "stopped" for one in psutil.Process(process.pid).children()))
    finally:
        await killed(process, signal.SIGKILL)
    await until(lambda: not runs())


@pytest.mark.control
async def test_what_a_command_says_and_how_it_ends_stays_the_same(ground: Ground) -> None:
    result = await ground.script("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (7, "out\n", "err\n")
    assert (await ground.script("kill -9 $$")).exit_code == 137


@pytest.mark.control
async def test_a_command_ends_its_own_children_as_it_likes(tmp_path: Path) -> None:
    # The group of an isolated command has its isolation in it.
    ground = Ground(tmp_path / "workshop", None, FILES)
    result = await ground.script("trap 'echo bye; exit 3' TERM; (sleep 60 & wait) & kill -TERM 0; wait")
    assert (result.exit_code, result.stdout.text.splitlines()[-1]) == (3, "bye")


# --- locks ---

_LOCKS = {
    "flock of the folder": "flock . sleep 600",
    "flock of a file": "flock data.txt sleep 600",
    "flock from below": "cd sub && flock .. sleep 600",
    "shared": "flock -s . sleep 600",
    "by descriptor": "exec 9<. && flock 9 && sleep 600",
    "lockf": "python3 -c \"import fcntl,time; fcntl.lockf(open('data.txt','a'), fcntl.LOCK_EX); time.sleep(600)\"",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", _LOCKS)
async def test_no_command_holds_up_who_writes(ground: Ground, kind: str) -> None:
    script = (
        _LOCKS[kind]
        .replace("sleep 600", "sh -c 'touch ready; sleep 600'")
        .replace("time.sleep(600)", "open('ready','w'); time.sleep(600)")
    )
    environment = ActivityEnvironment()
    asked = ShellInput(argv=("sh", "-c", script), tree=FILES, cwd="/", timeout_seconds=600)
    running = asyncio.ensure_future(environment.run(ground.activities.run_command, asked))
    ready = ground.folder / ("files/sub/ready" if "below" in kind else "files/ready")
    await until(ready.exists)
    files = FileActivities(ground.folder, workshop_blobs(ground.folder))
    mount = FILES.mounts[0]
    for name in ("data.txt", "new.txt", "other.txt"):
        write = WriteFileInput(mount=mount, relative=name, path=f"/{name}", content="written")
        await asyncio.to_thread(ActivityEnvironment().run, files.write_file, write)
    assert not running.done()
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (ground.folder / "files/data.txt").read_text() == "written"
