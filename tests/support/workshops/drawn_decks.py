"""Small PDFs drawn for a test, and what pypdf reads in them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.lib.utils import ImageReader  # pyright: ignore[reportMissingTypeStubs]
from reportlab.pdfgen.canvas import Canvas  # pyright: ignore[reportMissingTypeStubs]

PIPELINE = Path(__file__).parents[3] / "workers" / "files" / "pipeline"


def draw_deck(*pages: Sequence[str]) -> bytes:
    """A PDF with one page for each sequence of lines."""
    stream = io.BytesIO()
    canvas: Any = Canvas(stream, invariant=1)
    for lines in pages:
        for row, line in enumerate(lines):
            canvas.drawString(60, 760 - 24 * row, line)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def draw_pictures(pages: int) -> bytes:
    """A PDF of pictures without any text."""
    stream = io.BytesIO()
    canvas: Any = Canvas(stream, invariant=1)
    for shade in range(pages):
        canvas.drawImage(ImageReader(Image.new("L", (40, 30), 90 + shade)), 0, 0, 400, 300)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def lock(data: bytes, password: str) -> bytes:
    """The PDF, to be opened with a password only."""
    writer = PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def text_of_pages(data: bytes) -> list[str]:
    """The text of every page, with single spaces."""
    return [" ".join(page.extract_text().split()) for page in PdfReader(io.BytesIO(data)).pages]


def quotes_in(evidence: str) -> list[tuple[int, str]]:
    """Page and words of each quotation."""
    return [(int(page), words) for page, words in re.findall(r'page (\d+): "(.*?)"(?= \(not found|$|\))', evidence)]
