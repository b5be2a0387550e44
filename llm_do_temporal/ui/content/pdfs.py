"""PDFs as they are shown: their pages alone.

A browser's PDF viewer runs the scripts of a file (dialogs, forms that are sent), whatever the headers and the frame
say. So what is shown is written anew from the pages; the file itself can be downloaded.
"""

from __future__ import annotations

from llm_do_temporal.pdf.reader import PdfFailure, pdf_pages

MAX_SHOWN_BYTES, MAX_SHOWN_PAGES = 32 << 20, 1_000


def pages_alone(data: bytes) -> bytes | None:
    """A PDF of the same pages without scripts, links and form fields; None where it cannot be made.

    It blocks for as long as another process may take to read it.
    """
    if len(data) > MAX_SHOWN_BYTES:
        return None
    try:
        return pdf_pages(data, MAX_SHOWN_PAGES)
    except PdfFailure:
        return None
