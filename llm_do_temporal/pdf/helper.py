"""Program that parses PDFs for another process, which does not trust their content.

Owns every call of the parser. It is started once, with a socket as standard input and an empty environment, and forks
for each file: the child lowers its own limits before it looks at the first byte, and ends with the file. So nothing of
one file is there for the next, and a child that was killed leaves nothing. Must import nothing but Python and the
parser: it is run by its path, without this package. See `pdf_reading` for the other side.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, PdfObject, StreamObject

MAX_ORDER_BYTES = 4096
_ACTIVE = ("/AA", "/Annots", "/PieceInfo", "/Metadata")
"""Entries that act on their own or on a click, and others that no page needs to be seen."""
_MAX_ANNOTATIONS = 2_000
"""Most form fields and comments of a page that are read."""
_MAX_PARENTS = 20
_PR_SET_PDEATHSIG = 1
_PASSWORD = 1 << 13
"""Flag of a text field whose value is a password (ISO 32000, table 228)."""
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_DONE, _FAILED = b"d", b"f"


class Refused(Exception):
    """A readable file does not fit the order; the message says why."""


def warm_up() -> None:
    """Let the parser load and compile once, in a file of ours, what every child would otherwise do for itself."""
    writer = PdfWriter()
    page = writer.add_blank_page(72, 72)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
            NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    text = StreamObject()
    text.set_data(b"BT /F1 12 Tf 1 0 0 1 9 9 Tm (A word) Tj T* ET")
    page[NameObject("/Contents")] = text.flate_encode()
    written = io.BytesIO()
    writer.write(written)
    order = {"pages": 1, "characters": 100, "first_pages": False, "pictures": True}
    for work in _WORK.values():
        work(written.getvalue(), order)


def serve(orders: socket.socket) -> None:
    """Fork for each order until the other side is gone. An order is JSON, with three descriptors.

    They are the file, where the result goes, and a socket on which the child tells its process and how it ended.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()  # a child that looks for garbage would copy what it shares with this process
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, 3)
        if not order:
            return
        if os.fork() == 0:
            orders.close()
            _child(json.loads(order), *descriptors)
        for one in descriptors:
            os.close(one)


def _child(order: dict[str, Any], given: int, result: int, told: int) -> NoReturn:
    """Do one order, and end, whatever happens."""
    try:
        if _PRCTL is not None:
            _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.write(told, b"%d\n" % os.getpid())
        _limit(order)
        os.write(told, _work(order, given, result))
    finally:
        os._exit(0)


def _limit(order: dict[str, Any]) -> None:
    limits = (
        (resource.RLIMIT_CPU, order["cpu_seconds"]),
        (resource.RLIMIT_AS, order["memory_bytes"]),
        (resource.RLIMIT_FSIZE, order["result_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    )
    for name, most in limits:
        with contextlib.suppress(ValueError, OSError):  # not every system knows each of them
            resource.setrlimit(name, (most, most))


def _work(order: dict[str, Any], given: int, result: int) -> bytes:
    """Parse the file, write the result or the name of the error, and return which of the two it is."""
    state = _DONE
    try:
        data = os.pread(given, os.fstat(given).st_size, 0)
        made = _WORK[order["work"]](data, order)
    except Refused as refused:
        state, made = _FAILED, json.dumps(["Refused", str(refused)]).encode()
    except Exception as error:
        # A parser meets damaged and forged files in more ways than it has exceptions for.
        state, made = _FAILED, json.dumps([type(error).__name__, str(error)[:200]]).encode()
    try:
        written = 0
        while written < len(made):
            written += os.write(result, made[written:])
    except OSError:
        os.ftruncate(result, 0)
        state = _FAILED
        os.write(result, b'["TooLarge", ""]')
    return state


def _text(data: bytes, order: dict[str, Any]) -> bytes:
    """The text of each page until there is enough, and which of them have pictures where that is asked for."""
    reader = _opened(data)
    count, left = len(reader.pages), order["characters"]
    if count > order["pages"] and not order["first_pages"]:
        raise Refused(f"pages {count}")
    texts: list[str] = []
    pictures: list[bool] = []
    for page in reader.pages[: order["pages"]]:
        if left <= 0:
            break
        texts.append("\n".join(filter(None, (page.extract_text(), *_written_on(page))))[:left])
        left -= len(texts[-1])
        pictures.append(bool(order["pictures"] and page.images.keys()))
    return json.dumps({"count": count, "texts": texts, "pictures": pictures}).encode()


def _written_on(page: DictionaryObject) -> Iterator[str]:
    """Yield a line for each filled-in form field and each comment of a page, which are no part of its text."""
    annotations: Any = None
    with contextlib.suppress(Exception):  # a damaged list of them takes the page's text away from nobody
        annotations = _object(page.get("/Annots"))
    for one in _several(annotations):
        with contextlib.suppress(Exception):
            if line := _written_in(_object(one)):
                yield line


def _written_in(annotation: Any) -> str:
    if not isinstance(annotation, DictionaryObject) or annotation.get("/Subtype") == "/Link":
        return ""
    if annotation.get("/Subtype") == "/Widget":
        name, value = _field(annotation)
        return f"[form field {name or 'without a name'}: {value}]" if value else ""
    by, text = _words(annotation.get("/T")), _words(annotation.get("/Contents"))
    return f"[comment{f' by {by}' if by else ''}: {text}]" if text else ""


def _several(given: Any) -> list[Any]:
    """Return the first items of a list; none of anything else."""
    return list[Any](given)[:_MAX_ANNOTATIONS] if isinstance(given, list) else []  # pyright: ignore[reportUnknownArgumentType] - the parser's lists have no type


def _field(annotation: DictionaryObject) -> tuple[str, str]:
    """Return name and value of the form field that an annotation shows; a value may stand with a parent."""
    names: list[str] = []
    label = value = ""
    secret = False
    node: Any = annotation
    for _ in range(_MAX_PARENTS):
        if not isinstance(node, DictionaryObject):
            break
        names.insert(0, _words(node.get("/T")))
        label = label or _words(node.get("/TU"))
        value = value or _words(node.get("/V"))
        flags = _object(node.get("/Ff"))
        secret = secret or (isinstance(flags, int) and bool(flags & _PASSWORD))
        node = _object(node.get("/Parent"))
    return label or ".".join(filter(None, names)), "(a password, not shown)" if value and secret else value


def _words(given: Any) -> str:
    """Return a text, the name of a choice, or several of them as one line; empty for anything else."""
    value = _object(given)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, _several(value))))
    if isinstance(value, NameObject):
        return "" if value == "/Off" else str(value).removeprefix("/")
    return " ".join(str(value).split()) if isinstance(value, str) else ""


def _object(given: Any) -> Any:
    return given.get_object() if isinstance(given, PdfObject) else given


def _pages(data: bytes, order: dict[str, Any]) -> bytes:
    """A PDF of the same pages without scripts, links and form fields."""
    reader = PdfReader(io.BytesIO(data))
    if not 0 < len(reader.pages) <= order["pages"]:
        raise Refused("pages")
    writer = PdfWriter()
    for page in reader.pages:
        writer.add_page(page, excluded_keys=_ACTIVE)
    shown = io.BytesIO()
    writer.write(shown)
    return shown.getvalue()


def _flaw(data: bytes, order: dict[str, Any]) -> bytes:
    """Flaw of the file that readers would stumble over, as a clause; empty for none."""
    reader = _opened(data)
    count = len(reader.pages)
    if not count:
        return b"it has no pages"
    stated = _object(_object(reader.root_object["/Pages"]).get("/Count"))
    if isinstance(stated, int) and count < stated:
        return f"it is damaged: {stated - count} of {stated} pages are missing".encode()
    for number, page in enumerate(reader.pages[: order["pages"]], 1):
        try:
            for part in _parts(page["/Contents"]) if "/Contents" in page else ():
                if not isinstance(part, StreamObject):
                    raise Refused("contents")
                part.get_data()
        except MemoryError:
            raise
        except Exception:
            return f"it is damaged: page {number} of {count} cannot be read".encode()
    return b""


def _parts(contents: Any) -> list[Any]:
    found = _object(contents)
    return [_object(one) for one in list[Any](found)] if isinstance(found, list) else [found]  # pyright: ignore[reportUnknownArgumentType] - the parser's lists have no type


def _opened(data: bytes) -> PdfReader:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("password")
    return reader


_WORK: dict[str, Callable[[bytes, dict[str, Any]], bytes]] = {"text": _text, "pages": _pages, "flaw": _flaw}

if __name__ == "__main__":
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # odd files are no business of the operator
    warm_up()
    serve(socket.socket(fileno=0))
