"""What is shown of a PDF: its pages, and nothing in it that acts."""

from __future__ import annotations

import io

import pytest
from pypdf import PdfReader

from llm_do_temporal.ui.pages.attachments import pages_alone
from tests.support.workshops.hostile import DECK, hostile_pdf


def test_the_pages_stay_and_the_scripts_go() -> None:
    data = hostile_pdf()
    assert data.count(b"/JavaScript") >= 5
    shown = pages_alone(data)
    assert shown is not None
    assert b"alert" not in shown
    assert b"JavaScript" not in shown
    before, after = PdfReader(DECK), PdfReader(io.BytesIO(shown))
    assert [page.extract_text() for page in after.pages] == [page.extract_text() for page in before.pages]
    assert list(after.root_object) == ["/Type", "/Pages"]


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4\n", b"%PDF-1.4\n1 0 obj<</OpenAction<</S/JavaScript>>>>endobj\n"])
def test_what_cannot_be_read_is_not_shown(data: bytes) -> None:
    assert pages_alone(data) is None


def test_what_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_do_temporal.ui.pages.attachments.MAX_SHOWN_PAGES", 9)
    assert pages_alone(DECK.read_bytes()) is None
    monkeypatch.setattr("llm_do_temporal.ui.pages.attachments.MAX_SHOWN_BYTES", 100)
    assert pages_alone(DECK.read_bytes()) is None
