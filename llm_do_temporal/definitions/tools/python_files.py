"""Loading of the author's Python: a module per content of a file, with mistakes turned into DefinitionErrors.

Used for classes that describe results and inputs, and for the functions of a `tools.py`. Running these files is running
the author's code, with all that it may do.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from llm_do_temporal.definitions.tools.process_state import PROCESS_STATE
from llm_do_temporal.definitions.tools.python_functions import message_of
from llm_do_temporal.definitions.tools.python_modules import importable
from llm_do_temporal.definitions.tools.python_sources import PythonFile
from llm_do_temporal.definitions.yaml.text_files import label_of
from llm_do_temporal.errors import DefinitionError

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
        file, line = _raised_at(error, root)
        file = file or (None if path is None else label_of(path, root))
        words = message_of(error).replace(f"{root}/", "").split("\n")[0][:300]
        raise DefinitionError(f"{type(error).__name__}: {words}", file=file, line=line) from error


def _raised_at(error: BaseException, root: Path) -> tuple[str | None, int | None]:
    found: tuple[str | None, int | None] = (None, None)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if Path(name).is_relative_to(root):
            found = label_of(Path(name), root), trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(root):
        found = label_of(Path(error.filename), root), error.lineno
    return found
