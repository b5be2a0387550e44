"""Files that would do something if they were let."""

from __future__ import annotations

import io
from pathlib import Path

from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

DECK = Path(__file__).parents[3] / "workers/files/pipeline/frostlane.pdf"


def hostile_pdf() -> bytes:
    """The deck, with a script in every place that a viewer looks for one."""
    writer = PdfWriter(clone_from=DECK)
    script = DictionaryObject(
        {NameObject("/S"): NameObject("/JavaScript"), NameObject("/JS"): TextStringObject("app.alert(1)")}
    )
    acting = DictionaryObject({NameObject("/O"): script})
    link = DictionaryObject({NameObject("/Subtype"): NameObject("/Link"), NameObject("/A"): script})
    tree = DictionaryObject({NameObject("/Names"): ArrayObject([TextStringObject("x"), script])})
    page, root = writer.pages[0], writer.root_object
    page[NameObject("/AA")] = acting
    page[NameObject("/Annots")] = ArrayObject([link])
    root[NameObject("/AA")] = acting
    root[NameObject("/OpenAction")] = script
    root[NameObject("/Names")] = DictionaryObject({NameObject("/JavaScript"): tree})
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()
