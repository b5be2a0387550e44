"""The text of attached files: pages with their numbers, and what has none says so."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pypdf import PdfWriter
from reportlab.pdfgen.canvas import Canvas

from llm_do_temporal.activities.models.attachment_text import MAX_ATTACHED_CHARS, text_of
from llm_do_temporal.errors import AttachmentRefusal

PIPELINE = Path(__file__).parents[3] / "workers/files/pipeline"
PDF = "application/pdf"


def pdf(*pages: str) -> bytes:
    """A PDF with these texts; an empty one is a page without any."""
    target = io.BytesIO()
    canvas = Canvas(target)
    for text in pages:
        canvas.drawString(72, 72, text)
        canvas.showPage()
    canvas.save()
    return target.getvalue()


def test_every_page_of_a_deck_is_there_under_its_number() -> None:
    text = text_of((PIPELINE / "mendly.pdf").read_bytes(), PDF, "mendly.pdf")
    assert text.startswith("Text of mendly.pdf (PDF, 7 pages): you get the text only, without layout and pictures.")
    assert [f"--- page {number} ---" in text for number in range(1, 9)] == [True] * 7 + [False]


def test_a_page_without_text_is_counted_and_marked() -> None:
    text = text_of(pdf("First words", "", "Third words"), PDF, "a.pdf")
    assert "1 of 3 pages have no readable text: 2." in text
    assert "--- page 2 ---\n(no readable text)" in text
    assert "Third words" in text


def test_a_scan_is_refused_and_the_way_out_is_named() -> None:
    with pytest.raises(AttachmentRefusal, match="6 of 6 pages have no readable text") as refused:
        text_of((PIPELINE / "brightacre-scan.pdf").read_bytes(), PDF, "scan.pdf")
    assert "text recognition" in (refused.value.next_step or "")


def locked() -> bytes:
    writer = PdfWriter()
    writer.add_blank_page(72, 72)
    writer.encrypt("secret", algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def empty() -> bytes:
    target = io.BytesIO()
    PdfWriter().write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "media_type", "words"),
    [
        (b"%PDF-1.7\nnot really", PDF, "'a' cannot be read as a PDF"),
        (locked(), PDF, "'a' is a PDF with a password"),
        (empty(), PDF, "'a' is a PDF without pages"),
        (b"\xff\xfe\x00", "application/zip", "it is neither text nor a PDF"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, media_type: str, words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words):
        text_of(data, media_type, "a")


@pytest.mark.parametrize("media_type", ["text/markdown", "application/octet-stream"])
def test_text_is_given_as_it_is(media_type: str) -> None:
    assert text_of("# Ärger\n".encode(), media_type, "/notes.md") == "Content of /notes.md:\n# Ärger\n"


def test_a_text_without_end_is_cut_and_says_so() -> None:
    text = text_of(b"x" * (MAX_ATTACHED_CHARS + 5), "text/plain", "a")
    assert text.endswith(f"[cut here: {MAX_ATTACHED_CHARS} of {MAX_ATTACHED_CHARS + 5} characters]")
