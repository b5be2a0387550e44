"""The embedded server of a workshop: joined where it runs, started where it does not.

Everything it needs is in `<workshop>/.llm-do/`. One process, the host, owns the Temporal server and the worker service;
commands hold a shared lock while they need them. Locks vanish with their process, so nothing has to be cleaned up
after a crash. `needed.json` there has the names, and no values, of the variables that open runs may need: the worker
service adds those that are set when a run begins, and a host that leaves while no run is open removes the file.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pwd
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.storage.private_files import make_private, open_private, write_private

if TYPE_CHECKING:
    from llm_do_temporal.definitions.workshop import Workshop
    from llm_do_temporal.messages.runs import StartRunInput

DEFAULT_PORT = 7233
UI_PORT_OFFSET = 1000
START_SECONDS = 90
"""A host and its server, at a cold start on a slow disk; they usually take two seconds."""
_POLL_SECONDS = 0.05
_MAX_PID = 2**31 - 1
HostUse = Literal["reading", "decision", "work"]
"""Purpose of a host, the least first: without a worker service, with one while commands use it, or with one while runs
are open. A host gives way to a command that needs more."""
_USES: tuple[HostUse, ...] = ("reading", "decision", "work")
_NEEDED_FILE = "needed.json"
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_MOST_NEEDED = 100
_needed_turn = threading.Lock()
"""Taken to read and write the note: a service begins several runs side by side."""
_FIRST_PERSON, _LAST_PERSON = 500, 60_000
"""Accounts below belong to the system: 1,000 is the first person's on Linux, 501 on a Mac. Above is `nobody`."""
_NO_SHELLS = frozenset(("false", "nologin", "sync", "halt", "shutdown", ""))
_MOST_LOGINS = 5


@dataclass(frozen=True)
class HostInfo:
    """Addresses and process of a host; the content of `host.json`."""

    pid: int
    address: str
    ui: str | None
    kind: Literal["dev", "background"]
    use: HostUse = "work"

    def is_enough(self, use: HostUse) -> bool:
        """Whether a command that needs this can use the host."""
        return _USES.index(self.use) >= _USES.index(use)


def state_folder(workshop: Path) -> Path:
    """`<workshop>/.llm-do`, made when it is missing, its owner's alone, and kept out of version control.

    Raises UsageError where it cannot be made, or is a link or another account's.
    """
    folder = workshop / STATE_FOLDER
    try:
        make_private(folder)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            write_private(ignore, "*\n")
    except OSError as error:
        raise UsageError(
            f"'{STATE_FOLDER}' cannot be made in the workshop: {error.strerror}",
            next_step="The embedded server keeps its database there; make the workshop's folder writable.",
        ) from error
    return folder


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Generator[IO[bytes] | None]:
    """Hold a lock on `path` for as long as the block runs; yields None when another process has it."""
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file


def user_cache() -> Path:
    """Return the folder for files that a user's workshops share, and can do without."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The convention is to ignore a relative one.
    base = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return base / "llm-do-temporal"


def running_host(workshop: Path) -> HostInfo | None:
    """The host that serves this workshop now, if there is one."""
    folder = state_folder(workshop)
    if host_lock_is_free(folder):
        return None
    info = _read_info(folder)
    if not isinstance(info, HostInfo):
        return None
    # A host that was killed leaves its file behind, and its port may be another workshop's by now.
    return info if process_exists(info.pid) else None


def end_lesser_host(info: HostInfo | None, use: HostUse) -> bool:
    """Ask a host that is not enough for `use` to end, and return whether there is one."""
    if info is None or info.is_enough(use):
        return False
    with suppress(ProcessLookupError):
        os.kill(info.pid, signal.SIGTERM)
    return True


def _read_info(folder: Path) -> HostInfo | str | None:
    """Return what `host.json` says; a text, what is wrong with it, where it is damaged; None where there is none."""
    try:
        told: Any = json.loads((folder / "host.json").read_bytes())
        pid, address, ui, kind = told["pid"], told["address"], told["ui"], told["kind"]
        use = told.get("use", "work")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "it is no description of a host"
    # A signal to 0 or to a negative number reaches many processes.
    if type(pid) is not int or not 0 < pid <= _MAX_PID:
        return "its 'pid' is not the number of a process"
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if host != "127.0.0.1" or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        return "its 'address' is not a port of this machine"
    if kind not in ("dev", "background") or not isinstance(ui, str | None):
        return "its 'kind' or 'ui' is not what a host writes"
    if use not in _USES:
        return "its 'use' is not what a host writes"
    return HostInfo(pid, address, ui, kind, use)


def write_host_info(workshop: Path, info: HostInfo) -> None:
    """Write down for other processes where the host can be reached."""
    write_private(state_folder(workshop) / "host.json", json.dumps(asdict(info)))


def host_failure(workshop: Path) -> UsageError | None:
    """Return the reason why the last host of the workshop has ended; None: it left as usual, or was killed."""
    try:
        told = json.loads((state_folder(workshop) / "host.failure").read_text(encoding="utf-8"))
        return UsageError(str(told["message"]), next_step=told["next_step"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


@asynccontextmanager
async def embedded_server(workshop: Path, use: HostUse = "work") -> AsyncGenerator[HostInfo]:
    """A running host for this workshop, joined or started; it stays at least as long as the block runs.

    A host that is not enough for `use` ends, and another one is started. Raises ConnectionFailed when it cannot be.
    """
    async with in_use(workshop):
        yield await _ensure(workshop, use)


@asynccontextmanager
async def in_use(workshop: Path) -> AsyncGenerator[None]:
    """Keep a background host from leaving. One that is leaving already is waited for, without blocking the loop."""
    folder = state_folder(workshop)
    while True:
        with locked(folder / "users.lock", shared=True) as mine:
            if mine is not None:
                yield
                return
        await asyncio.sleep(_POLL_SECONDS)


async def arrived_host(workshop: Path) -> HostInfo | None:
    """The host that serves the workshop, once it does; None where none does. Raises ConnectionFailed."""
    folder = state_folder(workshop)
    deadline = time.monotonic() + START_SECONDS
    while not host_lock_is_free(folder):
        info = running_host(workshop)
        if info is not None and accepts(info.address):
            return info
        if time.monotonic() > deadline:
            _give_up(folder)
        await asyncio.sleep(_POLL_SECONDS)
    return None


async def _ensure(workshop: Path, use: HostUse) -> HostInfo:
    folder = state_folder(workshop)
    deadline = time.monotonic() + START_SECONDS
    started: subprocess.Popen[bytes] | None = None
    while time.monotonic() < deadline:
        info = running_host(workshop)
        if info is not None and info.is_enough(use) and accepts(info.address):
            return info
        end_lesser_host(info, use)
        if started is not None and started.poll() is not None:
            if host_lock_is_free(folder):
                _give_up(folder)
            # Another command was quicker, or the host before has not quite left: it tells where it is, or makes room.
            started = None
        if started is None and host_lock_is_free(folder):
            started = _spawn(workshop, use)
        await asyncio.sleep(_POLL_SECONDS)
    _give_up(folder)
    raise AssertionError


def host_lock_is_free(folder: Path) -> bool:
    """Whether no host serves the workshop with this state folder, arrives at it or leaves it."""
    # Shared: two commands that look at the same moment must not take each other for a host.
    with locked(folder / "host.lock", shared=True) as free:
        return free is not None


def _spawn(workshop: Path, use: HostUse) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "llm_do_temporal.client.embedded.host"]
    command += ["--workshop", str(workshop), "--use", use]
    descriptor = open_private(state_folder(workshop) / "host.log", os.O_WRONLY | os.O_APPEND)
    with os.fdopen(descriptor, "ab") as log:
        nothing = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=nothing, stdout=log, stderr=log, preexec_fn=_ignore_terminal)


def _ignore_terminal() -> None:
    """Leave Ctrl-C and a closed terminal to the command, also while the host is still coming up.

    The host stays in the command's process group: a signal that kills the group is meant for all of it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _give_up(folder: Path) -> None:
    failed = host_failure(folder.parent)
    if failed is not None:
        raise failed
    wrong = _read_info(folder)
    if isinstance(wrong, str) and not host_lock_is_free(folder):
        raise ConnectionFailed(
            f"{STATE_FOLDER}/host.json is damaged: {wrong}; a host holds {STATE_FOLDER}/host.lock, and cannot be found",
            next_step="Stop the `dev` of this workshop, or the process `llm_do_temporal.client.embedded.host`.",
        )
    log = folder / "host.log"
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if log.exists() else []
    silent = "no reason given; another command, a migrate-check perhaps, may still be using it alone"
    reason = last[0] if last else silent
    raise ConnectionFailed(
        f"the embedded Temporal server did not start: {reason}",
        next_step=f"See {STATE_FOLDER}/host.log and {STATE_FOLDER}/server.log in the workshop.",
    )


def accepts(address: str) -> bool:
    """Whether something listens at `host:port`."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=0.5):
        return True
    return False


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback interface."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def any_free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def unlikely_address() -> str:
    """A free `host:port` of this machine that no page in a browser can guess; elsewhere than on Linux only the port.

    On Linux all of 127.0.0.0/8 is this machine. Other accounts can look it up.
    """
    host = "127.0.0.1"
    if sys.platform == "linux":
        host = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    return f"{host}:{any_free_port(host)}"


def process_exists(pid: int) -> bool:
    """Whether a process with this id runs, of this account or another."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def remember_needed(workshop: Workshop, start: StartRunInput) -> None:
    """Note the variables that are set here and that the workshop, or a model that the start names, needs.

    A worker that cannot be read, or a file that cannot be written, leaves the note as it was.
    """
    # Imported here: commands look at the note, and read no worker.
    from llm_do_temporal.definitions.models import needed_variables

    models = (start.model, start.force_model, start.environment_model)
    with suppress(LlmDoError, OSError), _needed_turn:
        groups = needed_variables(workshop, *(model for model in models if model))
        names = {name for group in groups for name in group if os.environ.get(name)}
        if names - set(noted := _noted(workshop.root)):
            told = json.dumps(sorted(names.union(noted))[:_MOST_NEEDED])
            write_private(state_folder(workshop.root) / _NEEDED_FILE, told)


def lacking(workshop: Path) -> list[str]:
    """Return the variables that open runs may need and that are not set here."""
    return [name for name in _noted(workshop) if not os.environ.get(name)]


def forget_needed(workshop: Path) -> None:
    """Remove the note: nothing is open."""
    with suppress(OSError):
        (state_folder(workshop) / _NEEDED_FILE).unlink(missing_ok=True)


def _noted(workshop: Path) -> list[str]:
    try:
        found = json.loads((state_folder(workshop) / _NEEDED_FILE).read_bytes()[:1_000_000])
    except (OSError, ValueError, RecursionError):
        return []
    names = cast("list[Any]", found)[:_MOST_NEEDED] if isinstance(found, list) else []
    return [name for name in names if isinstance(name, str) and _VARIABLE.fullmatch(name)]


def other_logins(accounts: Iterable[pwd.struct_passwd] | None = None, uid: int | None = None) -> list[str]:
    """Return the names of people other than the user `uid` who can log in here; by default, those this machine lists.

    Root is not among them, who can do everything anyway. A directory service may know people whom it does not list.
    """
    me = os.getuid() if uid is None else uid
    found = pwd.getpwall() if accounts is None else accounts
    people = (one for one in found if _FIRST_PERSON <= one.pw_uid < _LAST_PERSON and one.pw_uid != me)
    return sorted({one.pw_name for one in people if Path(one.pw_shell).name not in _NO_SHELLS})


def logins_in_words(logins: list[str]) -> str:
    """Some of these names, and how many more there are."""
    shown = ", ".join(logins[:_MOST_LOGINS])
    return shown if len(logins) <= _MOST_LOGINS else f"{shown} and {len(logins) - _MOST_LOGINS} more"
