"""The author's Python: loaded as modules, once per content, with their mistakes turned into DefinitionErrors.

Used for classes that describe results and inputs, and for the functions of a `tools.py`. Running these files
is running the author's code, with all that it may do.
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

from llm_do_temporal.definitions.tools.python_modules import importable
from llm_do_temporal.definitions.tools.python_sources import PythonFile
from llm_do_temporal.definitions.yaml.text_files import label_of
from llm_do_temporal.errors import DefinitionError

_IMPORTS = threading.RLock()


def load_python(file: PythonFile) -> ModuleType:
    """The file as a module. Raises DefinitionError with the last line of the author's that ran.

    One module per content: an edited file is loaded anew, and whoever has the old one keeps it.
    """
    digest = hashlib.sha256(f"{file.path}\0{file.sha256}".encode()).hexdigest()
    name = f"_llm_do_author_{digest[:24]}"
    with _IMPORTS, authors_code(file.path, file.root), importable(file.root):
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = str(file.path)
        sys.modules[name] = module  # pydantic looks there for the names in annotations
        try:
            exec(compile(file.text, str(file.path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the author's own code
        except BaseException:
            del sys.modules[name]
            raise
        return module


def import_python(name: str, *, root: Path) -> ModuleType:
    """An importable module, the workshop's own included. Raises ModuleNotFoundError or DefinitionError."""
    with _IMPORTS, authors_code(None, root, passing=(ModuleNotFoundError,)), importable(root):
        importlib.invalidate_caches()
        return importlib.import_module(name)


@contextmanager
def authors_code(path: Path | None, root: Path, *, passing: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Turn what the author's code raises into a DefinitionError with the last line of theirs that ran."""
    try:
        yield
    except (DefinitionError, *passing):
        raise
    except (Exception, SystemExit) as error:
        file, line = _raised_at(error, root)
        file = file or (None if path is None else label_of(path, root))
        words = str(error).replace(f"{root}/", "").strip().split("\n")[0][:300]
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
