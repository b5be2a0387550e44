"""PDFs that would cost a reader without limits minutes, gigabytes or its life; small, and made when asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

_ROOT = b"<</Type/Catalog/Pages 2 0 R>>"
_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
_RESOURCES = b"/Resources<</Font<</F1 5 0 R>>/XObject<</X0 6 0 R>>>>"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]/Contents 4 0 R" + _RESOURCES + b">>"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"


def stream(data: bytes, more: bytes = b"") -> bytes:
    """A stream object that holds this as it is."""
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), more, data)


def packed(data: bytes, times: int = 1) -> bytes:
    """A stream object that holds this, packed so many times over."""
    for _ in range(times):
        data = zlib.compress(data, 9)
    return stream(data, b"/Filter[" + b"/FlateDecode" * times + b"]")


def text(words: str = "Good morning") -> bytes:
    """The content of a page that says this."""
    return f"BT /F1 12 Tf 9 9 Td ({words}) Tj ET".encode()


def pdf(objects: Iterable[bytes], *, trailer: bytes = b"", root: bytes = _ROOT) -> bytes:
    """A file with these objects, numbered from 2; the first is the root."""
    made, places = bytearray(b"%PDF-1.7\n"), [0]
    for number, one in enumerate((root, *objects), 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    begin = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % len(places)
    made += b"".join(b"%010d 00000 n \n" % place for place in places[1:])
    made += b"trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (len(places), trailer, begin)
    return bytes(made)


def page(content: bytes, *more: bytes) -> bytes:
    """A file with one page of this content; `more` are objects from number 6 on."""
    return pdf([PAGES, PAGE, content, _FONT, *more])


def _form(body: bytes, calls: int) -> bytes:
    resources = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</N %d 0 R>>/Font<</F1 5 0 R>>>>" % calls
    return stream(body, resources)


def _doubling(depth: int) -> bytes:
    """Forms that each show the next one twice."""
    forms = [_form(b"/N Do /N Do " * 2, 7 + number) for number in range(depth)]
    return page(stream(b"/X0 Do"), *forms, _form(text(), 6))


def _cmap(ranges: bytes) -> bytes:
    font = b"<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/ToUnicode 6 0 R/DescendantFonts[7 0 R]>>"
    head = b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange "
    cid = b"<</Type/Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<</Registry(A)/Ordering(B)/Supplement 0>>>>"
    return pdf([PAGES, PAGE, stream(text()), font, packed(head + ranges + b" endcmap"), cid])


def _widths(widths: bytes) -> bytes:
    font = b"<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[6 0 R]>>"
    return pdf([PAGES, PAGE, stream(text()), font, b"<</Type/Font/Subtype/CIDFontType2/BaseFont/A/W[%s]>>" % widths])


def _many_pages(count: int) -> bytes:
    kids = b"3 0 R " * count
    return pdf([b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, kids), PAGE, stream(text()), _FONT])


def _deep_tree(depth: int) -> bytes:
    nodes = [
        b"<</Type/Pages/Count 1/Kids[%d 0 R]/Parent %d 0 R>>" % (number + 3, number + 1) for number in range(depth)
    ]
    return pdf([*nodes, b"<</Type/Page/MediaBox[0 0 9 9]>>"])


def _wide_tree(depth: int) -> bytes:
    """Nodes that each have the next one as a child ten times."""
    nodes = [b"<</Type/Pages/Count 1/Kids[%s]>>" % (b"%d 0 R " % (number + 3) * 10) for number in range(depth)]
    return pdf([*nodes, b"<</Type/Page/MediaBox[0 0 9 9]>>"])


SLOW: dict[str, Callable[[], bytes]] = {
    "ten million words": lambda: page(packed(b"BT /F1 12 Tf " + b"(a b) Tj " * 8_000_000)),
    "one array of words": lambda: page(packed(b"BT /F1 12 Tf [" + b"(a) -500 " * 7_000_000 + b"] TJ ET")),
    "matrices": lambda: page(packed(b"1 0 0 1 0 0 cm " * 4_900_000)),
    "states": lambda: page(packed(b"q " * 30_000_000)),
    "numbers that nobody asked for": lambda: page(packed(b"1 " * 30_000_000)),
    "operators that nobody knows": lambda: page(packed(b"zz " * 20_000_000)),
    "inline pictures": lambda: page(packed(b"BI /W 1 /H 1 /BPC 8 /CS /G ID x EI " * 2_000_000)),
    "forms in forms": lambda: _doubling(24),
    "many pages of many words": lambda: pdf(
        [
            b"<</Type/Pages/Count 900/Kids[%s]>>" % (b"3 0 R " * 900),
            PAGE,
            packed(b"BT /F1 12 Tf " + b"( ) Tj " * 1_000_000),
            _FONT,
        ]
    ),
    "pages in pages": lambda: _wide_tree(9),
    "a map of characters": lambda: _cmap(b"1 beginbfrange <00000000> <7FFFFFFF> <0041> endbfrange " * 10),
    "a map of many ranges": lambda: _cmap(b"100 beginbfrange " + b"<0000> <FFFF> <0041> " * 2_000 + b"endbfrange "),
    "widths of characters": lambda: _widths(b"0 2000000000 500 "),
}
"""Files that take long."""
LARGE: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: page(packed(bytes(100 << 20))),
    "zeros in zeros": lambda: page(packed(bytes(1 << 27), times=3)),
    "zeros in a picture": lambda: page(
        stream(b"/X0 Do"),
        _FONT,
        stream(
            zlib.compress(bytes(1 << 27), 9),
            b"/Type/XObject/Subtype/Image/Width 30000/Height 30000/ColorSpace/DeviceGray/BitsPerComponent 8"
            b"/Filter/FlateDecode",
        ),
    ),
    "runs": lambda: page(stream(zlib.compress(b"\x81 " * 60_000_000), b"/Filter[/FlateDecode/RunLengthDecode]")),
    "a predictor": lambda: page(
        stream(zlib.compress(bytes(1 << 28)), b"/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 1000000000>>")
    ),
    "one long word": lambda: page(packed(b"BT /F1 12 Tf (" + b"a" * 70_000_000 + b") Tj ET")),
}
"""Files that take much."""
TANGLED: dict[str, Callable[[], bytes]] = {
    "a tree that is its own child": lambda: pdf([b"<</Type/Pages/Count 1/Kids[2 0 R]>>"]),
    "a tree below its child": lambda: pdf(
        [b"<</Type/Pages/Count 1/Kids[3 0 R]>>", b"<</Type/Pages/Count 1/Kids[2 0 R]/Parent 2 0 R>>"]
    ),
    "a parent that is its own": lambda: pdf([PAGES, b"<</Type/Page/Parent 3 0 R/Contents 4 0 R>>", stream(text())]),
    "a deep tree": lambda: _deep_tree(5_000),
    "more pages than anybody reads": lambda: _many_pages(200_000),
    "a count that is not true": lambda: pdf([b"<</Type/Pages/Kids[3 0 R]/Count 999999999999>>", PAGE, stream(text())]),
    "a count below zero": lambda: pdf([b"<</Type/Pages/Kids[3 0 R]/Count -5>>", PAGE, stream(text()), _FONT]),
    "a form that shows itself": lambda: page(stream(b"/X0 Do"), _form(b"/N Do /N Do", 6)),
    "a table of places that goes back to itself": lambda: pdf([PAGES, PAGE, stream(text())], trailer=b"/Prev 9"),
    "a length that is itself": lambda: pdf([PAGES, PAGE, b"<</Length 4 0 R>>\nstream\nx\nendstream"]),
    "content that is itself": lambda: pdf([PAGES, PAGE, b"[4 0 R 4 0 R]"]),
    "nested arrays": lambda: pdf([PAGES, PAGE, b"[" * 100_000 + b"]" * 100_000]),
    "nested dictionaries": lambda: pdf([PAGES, PAGE, b"<</A" * 50_000 + b" 1 " + b">>" * 50_000]),
    "arrays in content": lambda: page(packed(b"[" * 1_000_000)),
    "dictionaries in content": lambda: page(packed(b"<</A " * 1_000_000)),
    "a number without end": lambda: page(stream(b"BT " + b"9" * 1_000_000 + b" 0 Td (a) Tj ET")),
    "a name without end": lambda: page(stream(b"/" + b"A" * 5_000_000 + b" Do")),
    "a root that is a page": lambda: pdf([PAGES, PAGE, stream(text())], root=b"<</Type/Catalog/Pages 3 0 R>>"),
    "no end": lambda: page(stream(text()))[:-200],
    "only the beginning": lambda: b"%PDF-1.7\n" + b"1 0 obj\n" * 200_000,
    "a place far away": lambda: b"%PDF-1.7\nstartxref\n99999999999999999999\n%%EOF",
    "a key of no cipher": lambda: pdf(
        [PAGES, PAGE, stream(text())],
        trailer=b"/Encrypt<</Filter/Standard/V 5/R 6/Length 256/O(a)/U(b)/P -1/CF<<>>/StmF/X/StrF/X>>/ID[(a)(b)]",
    ),
}
"""Files that lead a reader in circles, or nowhere."""
