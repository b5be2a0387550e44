"""Other people's code that runs in this process: its loading, and what it may not do to the process.

A file becomes a module per content, and a mistake of its author a DefinitionError. Such code cannot end the process by
the functions of `os`: that fails its call alone. What it writes to the standard streams is bounded for each call. It
cannot lower limits of resources for good, and settings that it changes are put back when it has ended, as the code of
several calls runs in one process. None of this holds in a process that the code has forked, or in a thread of its own
that does not know the call.

All Python of a workshop that is run is read here, from files that no worker can write. Modules of the workshop come
after everything that is installed. No bytecode is read or written and no extension is loaded: only the `.py` file that
a person can read is run, wherever a `.pyc` or `.so` with its name lies.
"""

from __future__ import annotations

import ast
import builtins
import gc
import hashlib
import importlib
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from operator import is_
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any

from llm_do_temporal.definitions.protection import PYTHON, check_protected, is_code_place
from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.tools.python_functions import message_of
from llm_do_temporal.definitions.yaml.documents import Unreadable, decode, label_of, read_bytes
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.sizes import MAX_LOGGED_CHARS


@dataclass(frozen=True)
class PythonFile:
    """Python file as it was read."""

    path: Path
    root: Path
    """Folder that the file may not leave, and may import from."""
    text: str
    sha256: str
    """Digest of the file's bytes."""

    @property
    def label(self) -> str:
        """Path of the file, as messages name it."""
        return label_of(self.path, self.root)


def read_python(path: Path, root: Path) -> PythonFile:
    """Read a Python file inside `root`, where no worker can write it. Raises DefinitionError."""
    try:
        check_protected(path, root, PYTHON)
        content = read_bytes(path, root)
        text = decode(content, label_of(path, root))
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    return PythonFile(path, root, text, hashlib.sha256(content).hexdigest())


def imported_files(file: PythonFile) -> dict[str, PythonFile]:
    """Return the modules of the workshop that the text of a file imports, and all that these import, by their names.

    One that cannot be read is left out: to import it fails.
    """
    found: dict[str, PythonFile] = {}
    waiting = [("", file)]
    while waiting:
        name, one = waiting.pop()
        for imported in _imported_names(one.text, name, is_package=one.path.name == "__init__.py"):
            path = _module_file(file.root, imported)
            if imported not in found and path is not None:
                with suppress(DefinitionError):
                    found[imported] = read_python(path, file.root)
                    waiting.append((imported, found[imported]))
    return found


def digest_with_imports(file: PythonFile, imported: Mapping[str, PythonFile]) -> str:
    """Return the digest of a file and of the modules that it imports; its own where it imports none."""
    if not imported:
        return file.sha256
    told = "".join(f"{name}\0{one.sha256}\0" for name, one in sorted(imported.items()))
    return hashlib.sha256(f"{file.sha256}\0{told}".encode()).hexdigest()


@lru_cache(maxsize=256)
def _imported_names(text: str, module: str, *, is_package: bool) -> tuple[str, ...]:
    """Return the full names of modules that a text may import; `module` is its own name, empty for no module.

    Kept, as the same text is asked for at each score of a case.
    """
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    package = module.split(".") if is_package else module.split(".")[:-1]
    named: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            named += [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
    # With the packages that they lie in.
    return tuple(".".join(parts[: end + 1]) for parts in (one.split(".") for one in named) for end in range(len(parts)))


def _module_file(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


class _Text(SourceFileLoader):
    """Loader that makes a module from the text of its file alone."""

    root: Path

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text. Raises DefinitionError for a file that workers can write."""
        file = read_python(Path(self.path), self.root)
        _digests[fullname] = file.sha256
        return compile(file.text, self.path, "exec", dont_inherit=True)


_digests: dict[str, str] = {}
"""Digests of the files of modules that were imported, by the names of the modules."""
_own_packages: dict[str, type[_Text]] = {}
"""Packages that were found in workshops, with their loaders; modules below them are found in no other way."""


def forget_changed(modules: Mapping[str, PythonFile]) -> None:
    """Have these modules imported anew where the file of any of them has changed since it was imported."""
    if any(_digests.get(name, file.sha256) != file.sha256 for name, file in modules.items()):
        for name in modules.keys() & _digests.keys():
            sys.modules.pop(name, None)


@contextmanager
def importable(root: Path) -> Generator[None]:
    """Let modules of the workshop be imported, after everything that is installed."""
    if _submodules not in sys.meta_path:
        sys.meta_path.insert(0, _submodules)  # for good: a function may import more of its package when it is called
    modules = _Modules(root)
    sys.meta_path.append(modules)
    try:
        yield
    finally:
        with suppress(ValueError):  # a function may have cleared it
            sys.meta_path.remove(modules)


class _Modules:
    """Finder of modules at the top of a workshop; the last finder to be asked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loader = type("_TextBelow", (_Text,), {"root": root})

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module of this name, where it is the workshop's."""
        return _found(name, [str(self._root)], self._loader) if path is None else None


class _Submodules:
    """Finder of modules below packages of workshops; the first finder to be asked, and then the only one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module of this name. Raises ModuleNotFoundError, so that no other finder looks for it."""
        loader = _own_packages.get(name.rpartition(".")[0])
        if path is None or loader is None:
            return None
        folders = [folder for folder in path if Path(folder).is_relative_to(loader.root)]
        if not folders:
            return None
        found = _found(name, folders, loader)
        if found is None:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found


_submodules = _Submodules()


def _found(name: str, folders: Sequence[str], loader: type[_Text]) -> ModuleSpec | None:
    """Return the module of this name in the folders; None where there is none."""
    for folder in folders:
        found = FileFinder(folder, (loader, [".py"])).find_spec(name)
        if found is None:
            continue
        # A folder without `__init__.py` must hold Python, and not the files that workers write.
        if found.loader is not None or any(
            is_code_place(label_of(inner / "module.py", loader.root), loader.root)
            and any(next(inner.glob(pattern), None) for pattern in ("*.py", "*/*.py"))
            for inner in map(Path, found.submodule_search_locations or ())
        ):
            if found.submodule_search_locations is not None:
                _own_packages[name] = loader
            return found
    return None


_ENDING = ("_exit", "abort", "execv", "execve")
"""Functions of `os` that end the process, or put another program in its place."""
_STREAMS = (1, 2)
_log = logging.getLogger(__name__)


@dataclass
class _Call:
    """A call, and how much of its output was kept and left out, in characters or bytes."""

    process: int
    kept: int = 0
    left_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def shortened(self, data: Any) -> Any:
        """Return as much of a text, or of bytes, as this call may still write; a line that is cut ends there."""
        with self._lock:
            some = data[: MAX_LOGGED_CHARS - self.kept]
            self.kept += len(some)
            self.left_out += len(data) - len(some)
        cut = bool(some) and len(some) < len(data)
        return some + (b"\n" if isinstance(data, bytes) else "\n") if cut else some


_call: ContextVar[_Call | None] = ContextVar("llm_do_authors_call", default=None)


@contextmanager
def authors_call() -> Generator[None]:
    """Mark what runs in the block as one call of other people's code; a call within a call belongs to that."""
    if _running() is not None:
        yield
        return
    call = _Call(os.getpid())
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)
        if call.left_out:
            _log.warning(
                "a function wrote more than %d characters to standard streams: %d more are left out",
                MAX_LOGGED_CHARS,
                call.left_out,
            )


@contextmanager
def own_words() -> Generator[None]:
    """Let the block write without a bound: its words are not those of the call."""
    token = _call.set(None)
    try:
        yield
    finally:
        _call.reset(token)


def _running() -> _Call | None:
    call = _call.get()
    return call if call is not None and call.process == os.getpid() else None


def _bounded(writer: Any) -> Callable[[Any], int]:
    write, flush = writer.write, writer.flush

    def write_some(data: Any) -> int:
        call = _running()
        if call is None or not isinstance(data, str | bytes):
            return write(data)
        some = call.shortened(data)
        if some:
            # At once: what waits in the stream would count again where it is written.
            with own_words():
                write(some)
                flush()
        return len(data)

    return write_some


def _without_end(ending: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(ending)
    def end(*arguments: Any, **named: Any) -> Any:
        if _running() is not None:
            raise SystemExit(f"os.{name} would end the whole process")
        return ending(*arguments, **named)

    return end


def _with_bound(write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
    @wraps(write)
    def write_some(descriptor: int, data: Any, /) -> int:
        call = _running() if descriptor in _STREAMS else None
        if call is None:
            return write(descriptor, data)
        left = memoryview(call.shortened(bytes(data)))
        while left:
            left = left[write(descriptor, left) :]
        return len(data)

    return write_some


def _without_hard_limit(set_limits: Callable[[int, tuple[int, int]], None]) -> Callable[[int, Any], None]:
    @wraps(set_limits)
    def set_some(which: int, limits: Any, /) -> None:
        # Nobody could raise the upper one again.
        set_limits(which, limits if _running() is None else (limits[0], resource.getrlimit(which)[1]))

    return set_some


resource.setrlimit = _without_hard_limit(resource.setrlimit)
for _name in _ENDING:
    setattr(os, _name, _without_end(getattr(os, _name), _name))
os.write = _with_bound(os.write)


_Limit = tuple[Callable[[Any], object], Callable[[], Any], Any]
"""Function that sets a limit, function that reads it, and the limit as it was."""
_Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""Function that reads a setting, and function that takes what was read."""


class ProcessState:
    """Settings as they were before any of the code that now runs began.

    A limit that was lowered is put back when the call that may have lowered it ends, everything else when no other call
    runs: until then one of these may need what it has set. What is changed while a module is imported stays.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._before: list[tuple[Callable[[Any], object], Any]] = []
        self._limits: list[_Limit] = []
        self._warned = warnings.catch_warnings()

    @contextmanager
    def usable(self) -> Generator[None]:
        """Put back limits that the code in the block lowers, and nothing else: what is set by an import stays."""
        limits = [(write, read, read()) for read, write in _LIMITS]
        _keep_open()
        try:
            with authors_call():
                yield
        finally:
            _raise_again(limits)

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keep the settings of the process as they are, whatever the code in the block changes."""
        with self._lock:
            if not self._running:
                self._before = [(write, read()) for read, write in _SETTINGS]
                self._limits = [(write, read, read()) for read, write in _LIMITS]
                self._warned = warnings.catch_warnings()
                self._warned.__enter__()
                _keep_open()
            self._running += 1
        trace, profile = sys.gettrace(), sys.getprofile()
        try:
            with authors_call():
                yield
        finally:
            # Those of this thread, which other calls use after this one.
            if sys.gettrace() is not trace:
                sys.settrace(trace)
            if sys.getprofile() is not profile:
                sys.setprofile(profile)
            with self._lock:
                self._running -= 1
                _raise_again(self._limits)
                if not self._running:
                    self._warned.__exit__(None, None, None)
                    for write, before in self._before:
                        with suppress(Exception):
                            write(before)


def _keep_open() -> None:
    """Have the standard streams take no more of a call than they may, and nobody close them.

    A log line that meets a closed stream fails whoever writes it.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        for writer in (stream, getattr(stream, "buffer", None)):
            if writer is not None and "write" not in vars(writer):
                vars(writer)["write"] = _bounded(writer)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, TypeError):
            vars(stream)["close"] = stream.flush


def _raise_again(limits: list[_Limit]) -> None:
    for write, read, before in limits:
        if read() < before:
            with suppress(OSError, ValueError):
                write(before)


def _umask() -> int | None:
    """Return the umask; None where it cannot be read without setting it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return None


def _folder() -> Path | None:
    """Return the current folder; None: it is gone."""
    with suppress(OSError):
        return Path.cwd()
    return None


def _resource(which: int) -> _Setting:
    """Return the limit of a resource of the system, with a large number for no limit."""

    def read() -> int:
        most = resource.getrlimit(which)[0]
        return sys.maxsize if most == resource.RLIM_INFINITY else most

    def write(most: int) -> None:
        soft = resource.RLIM_INFINITY if most == sys.maxsize else most
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))

    return read, write


def _stack_size() -> int:
    """Return the size of the stack of new threads. Asking for it sets it to the default."""
    size = threading.stack_size()
    threading.stack_size(size)
    return size


def _logging() -> tuple[list[logging.Handler], int, int]:
    return list(logging.root.handlers), logging.root.level, logging.root.manager.disable


def _set_logging(before: tuple[list[logging.Handler], int, int]) -> None:
    if _logging() == before:
        return  # to set a level makes all loggers forget what is enabled
    handlers, level, disabled = before
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.disable(disabled)


_imported: set[str] = set()
"""Names of modules whose import has ended."""
_last_modules: dict[str, ModuleType] = {}
"""Modules as they were read last, kept because it would cost milliseconds to look at each one before and after every
call. Empty where an import was under way then."""


def _modules() -> dict[str, ModuleType]:
    """Return the modules, and note whose import has ended. One without a spec is never put back."""
    global _last_modules
    if _are_same_modules(sys.modules, _last_modules):
        return _last_modules
    found = dict(sys.modules)
    all_imported = True
    for name in found.keys() - _imported:
        under_way = getattr(getattr(found[name], "__dict__", {}).get("__spec__"), "_initializing", None)
        if under_way is False:
            _imported.add(name)
        elif under_way:
            all_imported = False
    _last_modules = found if all_imported else {}
    return found


def _set_modules(before: dict[str, ModuleType]) -> None:
    """Put modules back that are gone or replaced, but for those of workshops, which are imported anew at times."""
    if _are_same_modules(sys.modules, before):
        return
    for name, module in before.items():
        is_workshops = name in _digests or name in _own_packages
        if sys.modules.get(name) is not module and name in _imported and not is_workshops:
            sys.modules[name] = module


def _are_same_modules(some: dict[str, ModuleType], others: dict[str, ModuleType]) -> bool:
    """Return whether both are the same modules in the same order; no `__eq__` of a module is called.

    Names are not compared, which would take as long again: a module gets another name in its place only on purpose.
    Another thread may import something into `some` meanwhile, so its modules are listed in one step.
    """
    found = list(some.values())
    return len(found) == len(others) and all(map(is_, found, others.values()))


def _attribute(owner: Any, name: str) -> _Setting:
    return lambda: getattr(owner, name), lambda before: setattr(owner, name, before)


def _entries(name: str) -> _Setting:
    """Return the setting that is a list in `sys`: entries that are gone come back, those that are new stay.

    A module adds such entries when it is imported, which a function may do, and needs them from then on.
    """

    def read() -> tuple[list[Any], list[Any]]:
        kept = getattr(sys, name)
        return kept, [one for one in kept if not isinstance(one, _Modules)]

    def write(before: tuple[list[Any], list[Any]]) -> None:
        kept, entries = before
        now = list(getattr(sys, name) or ())
        kept[:] = [*(one for one in entries if one not in now), *now]
        setattr(sys, name, kept)

    return read, write


_LIMITS: list[_Setting] = [
    (sys.getrecursionlimit, sys.setrecursionlimit),
    *(_resource(which) for name, which in vars(resource).items() if name.startswith("RLIMIT_")),
    # The most digits of an integer that is read or written as text; 0 stands for no limit.
    (
        lambda: sys.get_int_max_str_digits() or sys.maxsize,
        lambda most: sys.set_int_max_str_digits(0 if most == sys.maxsize else most),
    ),
]
_SETTINGS: list[_Setting] = [
    (lambda: dict(builtins.__dict__), builtins.__dict__.update),
    (_modules, _set_modules),
    *_LIMITS,
    (_folder, lambda folder: folder and os.chdir(folder)),
    (_umask, lambda umask: None if umask is None else os.umask(umask)),
    (lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getswitchinterval, sys.setswitchinterval),
    (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    (_stack_size, threading.stack_size),
    *(_attribute(sys, name) for name in ("stdin", "stdout", "stderr", "excepthook", "unraisablehook")),
    _attribute(threading, "excepthook"),
    *(_entries(name) for name in ("path", "path_hooks", "meta_path")),
    *(
        (partial(signal.getitimer, which), lambda before, which=which: signal.setitimer(which, *before))
        for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    ),
    (threading.gettrace, threading.settrace),
    (threading.getprofile, threading.setprofile),
    (_logging, _set_logging),
]
PROCESS_STATE = ProcessState()


_IMPORTS: dict[str, threading.RLock] = {}
"""A lock for each module: an import that takes long holds up those alone who want the same one."""


def load_python(file: PythonFile, digest: str = "") -> ModuleType:
    """Return the file as a module. Raises DefinitionError with the last line of the author's that ran.

    There is a module for each `digest`, which is that of the file's content by default: an edited file is loaded anew,
    and users of the old module keep that.
    """
    digest = hashlib.sha256(f"{file.path}\0{digest or file.sha256}".encode()).hexdigest()
    name = f"_llm_do_author_{digest}"
    with _IMPORTS.setdefault(name, threading.RLock()):
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = str(file.path)
        with authors_code(file.path, file.root), importable(file.root):
            sys.modules[name] = module  # pydantic looks there for the names in annotations
            try:
                exec(compile(file.text, str(file.path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the author's own code
            except BaseException:
                del sys.modules[name]
                raise
        return module


def import_python(name: str, *, root: Path) -> ModuleType:
    """Import a module, the workshop's own included. Raises ModuleNotFoundError or DefinitionError."""
    with authors_code(None, root, passing=(ModuleNotFoundError,)), importable(root):
        importlib.invalidate_caches()
        return importlib.import_module(name)


@contextmanager
def authors_code(path: Path | None, root: Path, *, passing: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Turn an exception of the author's code into a DefinitionError with the last line of theirs that ran.

    Exceptions in `passing` are left alone, and Ctrl-C, which arrives in the main thread; `path` is the file to name
    where no line of theirs ran.
    """
    try:
        with PROCESS_STATE.usable():
            yield
    except (DefinitionError, *passing):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            places.append((error.filename, error.lineno or 0))
        theirs = [(Path(name), line) for name, line in places if Path(name).is_relative_to(root)]
        last, line = theirs[-1] if theirs else (path, 0)
        file = None if last is None else label_of(last, root)
        words = message_of(error).replace(f"{root}/", "").split("\n")[0][:300]
        raise DefinitionError(f"{type(error).__name__}: {words}", file=file, line=line or None) from error
