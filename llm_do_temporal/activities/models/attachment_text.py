"""Text of an attached file, for a model that does not get the file itself.

Called while a turn is served, in a thread. PDFs are parsed in another process, within limits; the text is shown to a
model and never kept.
"""

from __future__ import annotations

from functools import lru_cache

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.pdf.reader import Order, PdfFailure, PdfText, pdf_flaw, pdf_text
from llm_do_temporal.policy.files.attachments import PDF, UNKNOWN, flaw_of, kind_of, real_type
from llm_do_temporal.policy.files.encodings import readable

MAX_ATTACHED_CHARS = 400_000
"""Some hundred thousand tokens: no model reads more of one file with profit, and most could not take it."""
MAX_PAGES = 1_000
_KEPT_TEXTS = 16
"""Every turn of a conversation sends its attachments again; reading a long PDF takes seconds."""
_READABLE_CHARS = 2
"""A page with fewer letters or digits has no text: a page number at most."""
_WHOLE = "Attach a copy that opens in its own program, without a password; another model cannot read this one, either."
_ORDER = Order("text", MAX_PAGES, characters=MAX_ATTACHED_CHARS)


def text_of(data: bytes, declared: str, name: str) -> str:
    """Return the file's text, after a line with its name and kind. Raises AttachmentRefusal where it has none.

    What the file is counts, and not its `declared` media type. A PDF whose beginning is damaged may be readable.
    """
    real = real_type(data, declared)
    if PDF in (real, declared) and kind_of(real) != "text":
        return _pdf_text(data, name)
    text, lost = readable(data)
    if lost and kind_of(real) != "text":
        why = "" if declared == UNKNOWN else flaw_of(data, real)
        raise AttachmentRefusal(
            f"'{name}' ({real}) cannot be given to this model: {why or 'it is neither text nor a PDF'}",
            next_step=_WHOLE if why else "Attach it as text or PDF, or choose a model that takes such files.",
        )
    is_miscalled = real != declared and kind_of(real) == "text"
    called = f"{name} is called {declared}, and is {real}.\n" if is_miscalled else ""
    remark = f" ({lost}; who attached it should convert it to UTF-8)" if lost else ""
    return f"{called}Content of {name}{remark}:\n{_cut(text)}"


@lru_cache(maxsize=_KEPT_TEXTS)
def flaw_of_pdf(data: bytes) -> str:
    """Return why readers cannot read all of a PDF whose end is there, as a clause; empty where nothing is known."""
    try:
        return pdf_flaw(data, MAX_PAGES)
    except PdfFailure as failure:
        # A file that takes too long, or too much memory, may be a good one.
        return "" if failure.kind == "TooMuch" else "it is damaged: it cannot be read as a PDF"


@lru_cache(maxsize=_KEPT_TEXTS)
def _pdf_text(data: bytes, name: str) -> str:
    found = _read(data, name)
    pages = found.texts
    unreadable = [number for number, text in enumerate(pages, 1) if sum(map(str.isalnum, text)) < _READABLE_CHARS]
    if len(unreadable) == len(pages):
        raise AttachmentRefusal(
            f"'{name}' cannot be given to this model as text: {len(pages)} of {len(pages)} pages have no readable text",
            next_step="It is probably a scan. Run text recognition on it, or choose a model that takes PDFs.",
        )
    lines = [f"Text of {name} (PDF, {found.count} pages): you get the text only, without layout and pictures."]
    if unreadable:
        listed = ", ".join(map(str, unreadable[:50]))
        lines.append(f"{len(unreadable)} of {len(pages)} pages have no readable text: {listed}.")
    for number, text in enumerate(pages, 1):
        lines += ["", f"--- page {number} ---", "(no readable text)" if number in unreadable else text.strip()]
    if not found.is_whole:
        lines.append(
            f"[cut here, on page {len(pages)} of {found.count}: there are more than {MAX_ATTACHED_CHARS} characters]"
        )
    return "\n".join(lines)


def _read(data: bytes, name: str) -> PdfText:
    try:
        found = pdf_text(data, _ORDER)
    except PdfFailure as failure:
        raise _refusal(failure, data, name) from failure
    if not found.count:
        raise AttachmentRefusal(f"'{name}' is a PDF without pages", next_step=_WHOLE)
    return found


def _refusal(failure: PdfFailure, data: bytes, name: str) -> AttachmentRefusal:
    what, _, number = str(failure).partition(" ")
    if failure.kind == "Refused" and what == "password":
        return AttachmentRefusal(
            f"'{name}' is a PDF with a password and cannot be read", next_step="Attach a copy without the password."
        )
    if failure.kind == "Refused":
        return AttachmentRefusal(
            f"'{name}' has {number} pages; the text of at most {MAX_PAGES} can be given",
            next_step="Attach a part of it.",
        )
    if failure.kind == "TooMuch":
        return AttachmentRefusal(
            f"'{name}' cannot be read as a PDF: {failure}",
            next_step="Attach a part of it, or choose a model that takes PDFs.",
        )
    # What the parser says of it are names of its own classes.
    real = real_type(data, PDF)
    why = flaw_of(data, real) or ("it is damaged" if real == PDF else f"its content is {real}")
    return AttachmentRefusal(f"'{name}' cannot be read as a PDF: {why}", next_step=_WHOLE)


def _cut(text: str) -> str:
    if len(text) <= MAX_ATTACHED_CHARS:
        return text
    return f"{text[:MAX_ATTACHED_CHARS]}\n[cut here: {MAX_ATTACHED_CHARS} of {len(text)} characters]"
