"""PDFs as they are shown: their pages alone.

A browser's PDF viewer runs the scripts of a file (dialogs, forms that are sent), whatever the headers and the frame
say. So what is shown is written anew from the pages; the file itself can be downloaded.
"""

from __future__ import annotations

import io
import logging

from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError

MAX_SHOWN_BYTES, MAX_SHOWN_PAGES = 32 << 20, 1_000
_ACTIVE = ("/AA", "/Annots", "/PieceInfo", "/Metadata")
"""What acts on its own or on a click, and what no page needs to be seen."""

logging.getLogger("pypdf").setLevel(logging.ERROR)  # its warnings on odd files are no business of the operator


def pages_alone(data: bytes) -> bytes | None:
    """A PDF of the same pages without scripts, links and form fields; None where it cannot be made."""
    if len(data) > MAX_SHOWN_BYTES:
        return None
    try:
        reader = PdfReader(io.BytesIO(data))
        if not 0 < len(reader.pages) <= MAX_SHOWN_PAGES:
            return None
        writer = PdfWriter()
        for page in reader.pages:
            writer.add_page(page, excluded_keys=_ACTIVE)
        shown = io.BytesIO()
        writer.write(shown)
    except (PyPdfError, ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError):
        # A parser meets damaged and forged files in more ways than it has exceptions for.
        return None
    return shown.getvalue()
