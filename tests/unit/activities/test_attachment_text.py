"""The text of attached files: pages with their numbers, and what has none says so."""

from __future__ import annotations

import codecs
import io
import zipfile
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText, Link
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject
from reportlab.pdfgen.canvas import Canvas

from llm_do_temporal.activities.models.attachments import MAX_ATTACHED_CHARS, text_of
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


def archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        made.writestr(zipfile.ZipInfo("\xe4.bin"), b"\xff\xfe" * 40)
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "media_type", "words"),
    [
        (b"%PDF-1.7\nnot really", PDF, "'a' cannot be read as a PDF: it was cut: its end is missing"),
        (b"%PDF-1.7\nnot really\nstartxref\n9\n%%EOF", PDF, "'a' cannot be read as a PDF: it is damaged"),
        (b"\0\x05\x16\x07" + bytes(64), PDF, "'a' cannot be read as a PDF: it has what macOS notes about another file"),
        (archive(), PDF, "'a' cannot be read as a PDF: its content is application/zip"),
        (b"\0\xff", PDF, "'a' cannot be read as a PDF: its content is not what its name says"),
        (locked(), PDF, "'a' is a PDF with a password"),
        (empty(), PDF, "'a' is a PDF without pages"),
        (archive(), "text/csv", r"'a' \(application/zip\) .* it is neither text nor a PDF"),
        (archive()[:40], "application/zip", "it was cut: its end is missing"),
        (b"\xff\xfd\x00", "application/octet-stream", "it is neither text nor a PDF"),
    ],
)
def test_what_cannot_be_read_says_why_and_what_helps(data: bytes, media_type: str, words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words) as refused:
        text_of(data, media_type, "a")
    assert "Error" not in refused.value.message
    assert "ttach" in (refused.value.next_step or "")


@pytest.mark.parametrize("declared", [PDF, "application/vnd.ms-excel"])
def test_a_text_that_is_called_something_else_is_given_as_what_it_is(declared: str) -> None:
    data = "<html><p>Bitte anmelden, Größe".encode("cp1252")
    text = text_of(data, declared, "a")
    assert text.startswith(
        f"a is called {declared}, and is text/html.\nContent of a (not all of it is text in UTF-8: 2 "
    )
    assert "<p>Bitte anmelden, Gr" in text


@pytest.mark.parametrize("media_type", ["text/markdown", "application/octet-stream"])
def test_text_is_given_as_it_is(media_type: str) -> None:
    assert text_of("# Ärger\n".encode(), media_type, "/notes.md") == "Content of /notes.md:\n# Ärger\n"


def test_a_text_without_end_is_cut_and_says_so() -> None:
    text = text_of(b"x" * (MAX_ATTACHED_CHARS + 5), "text/plain", "a")
    assert text.endswith(f"[cut here: {MAX_ATTACHED_CHARS} of {MAX_ATTACHED_CHARS + 5} characters]")


def form(**fields: str) -> bytes:
    """A PDF whose page has the name of a form, and fields with these values."""
    target = io.BytesIO()
    canvas = Canvas(target)
    canvas.drawString(72, 700, "Claim")
    for number, (name, value) in enumerate(fields.items()):
        canvas.acroForm.textfield(name=name, value=value, x=72, y=600 - 40 * number)
    canvas.acroForm.checkbox(name="insured", checked=True, x=72, y=100)
    canvas.acroForm.checkbox(name="smokes", checked=False, x=72, y=60)
    canvas.save()
    return target.getvalue()


def test_values_of_a_form_are_in_its_text() -> None:
    text = text_of(form(amount="1,200 EUR", name="Zoë Müller", empty=""), PDF, "claim.pdf")
    assert "[form field amount: 1,200 EUR]" in text
    assert "[form field name: Zoë Müller]" in text
    assert "[form field insured: Yes]" in text
    assert "smokes" not in text
    assert "empty" not in text


def test_a_form_without_other_text_is_readable() -> None:
    target = io.BytesIO()
    canvas = Canvas(target)
    canvas.drawString(72, 72, "-")
    canvas.acroForm.textfield(name="amount", value="1200", x=72, y=600)
    canvas.save()
    assert "[form field amount: 1200]" in text_of(target.getvalue(), PDF, "claim.pdf")


def commented(*annotations: DictionaryObject, damaged: bool = False) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("Some words"))))
    for annotation in annotations:
        writer.add_annotation(0, annotation)
    if damaged:
        page = writer.pages[0]
        page[NameObject("/Annots")] = ArrayObject([TextStringObject("x"), *page.get("/Annots", ArrayObject())])
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def test_comments_are_in_the_text_with_who_made_them() -> None:
    comment = FreeText(text="Is this\nright?", rect=(50, 50, 200, 100))
    comment[NameObject("/T")] = TextStringObject("Ada")
    link = Link(rect=(0, 0, 9, 9), url="https://example.org/elsewhere")
    text = text_of(commented(comment, link, damaged=True), PDF, "a.pdf")
    assert "Some words" in text
    assert "[comment by Ada: Is this right?]" in text
    assert "elsewhere" not in text


def test_a_value_may_stand_with_a_parent_that_leads_to_itself() -> None:
    field = DictionaryObject({NameObject("/Subtype"): NameObject("/Widget"), NameObject("/T"): TextStringObject("b")})
    parent = DictionaryObject({NameObject("/T"): TextStringObject("a"), NameObject("/V"): TextStringObject("7")})
    field[NameObject("/Parent")] = parent
    field[NameObject("/Rect")] = ArrayObject()
    assert "[form field a.b: 7]" in text_of(commented(field), PDF, "a.pdf")
    parent[NameObject("/Ff")] = NumberObject(1 << 13 | 1)
    text = text_of(commented(field), PDF, "a.pdf")
    assert "[form field a.b: (a password, not shown)]" in text
    assert "7" not in text.replace("a.pdf", "")


@pytest.mark.parametrize(
    "encoded",
    [
        codecs.BOM_UTF8 + "Größe;Käse 12\u2009€".encode(),
        "Größe;Käse 12\u2009€".encode("utf-16"),
        codecs.BOM_UTF16_BE + "Größe;Käse 12\u2009€".encode("utf-16-be"),
        "Größe;Käse 12\u2009€".encode("utf-32"),
        "Größe;Käse 12\u2009€".encode(),
    ],
)
def test_a_byte_order_mark_says_how_a_text_is_read(encoded: bytes) -> None:
    assert text_of(encoded, "text/csv", "a.csv") == "Content of a.csv:\nGröße;Käse 12\u2009€"


@pytest.mark.parametrize(
    ("encoded", "words"),
    [
        ("Größe;Käse".encode("cp1252"), "3 places are shown as \ufffd"),
        ("日本語".encode("shift-jis"), "places are shown as \ufffd"),
        ("Umsatz;Käse".encode("utf-16-le"), "shown as \ufffd"),
        ("Umsatz".encode("utf-16-le"), "6 NUL characters are left out"),
        (b"\xff\xfeA\x00\x00", "shown as \ufffd"),
        ("ein \ufffd, dann ".encode() + b"\xe4", "1 places are shown as \ufffd"),
    ],
)
def test_what_is_lost_of_a_text_is_said(encoded: bytes, words: str) -> None:
    text = text_of(encoded, "text/csv", "a.csv")
    assert words in text.splitlines()[0]
    assert "\0" not in text


def test_a_text_that_holds_the_mark_of_what_is_lost_has_lost_nothing() -> None:
    assert text_of("a \ufffd b".encode(), "text/plain", "a.txt") == "Content of a.txt:\na \ufffd b"
