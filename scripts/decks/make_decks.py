"""Draws the sample pitch decks of the shipped workshop: `python scripts/decks/make_decks.py [FOLDER]`.

Owns how they look; `deck_texts.py` has what they say. The same texts always give the same bytes: no
dates, no randomness without a seed. Scanned decks are pages turned into slightly crooked, noisy JPEG
pictures, so that they have no text to extract.
"""

from __future__ import annotations

import io
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import reportlab  # pyright: ignore[reportMissingTypeStubs]
from deck_texts import SCANNED, TYPESET, Chart, DeckText, Slide
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.colors import HexColor  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from reportlab.lib.utils import ImageReader  # pyright: ignore[reportMissingTypeStubs]
from reportlab.pdfbase.pdfmetrics import stringWidth  # pyright: ignore[reportMissingTypeStubs]
from reportlab.pdfgen.canvas import Canvas  # pyright: ignore[reportMissingTypeStubs]

WIDTH, HEIGHT = 960, 540
"""Points: the 16:9 page of presentation programs."""
MARGIN = 64
LINE_HEIGHT = 1.32
INK, GREY, PALE = "#1D2430", "#6B7480", "#E6EAEE"
SCAN_SCALE = 1.25
"""Pixels a point: readable for people and vision models, and small."""
SCAN_QUALITY = 42
SCAN_SEED = 20250301
PAPER = 243
SPECKS = 2600
DEFAULT_FOLDER = Path(__file__).parents[2] / "workers" / "files" / "pipeline"


def main(folder: Path) -> None:
    """Write every sample deck into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for deck in TYPESET:
        _save(folder / f"{deck.stem}.pdf", typeset(deck))
    for deck in SCANNED:
        _save(folder / f"{deck.stem}.pdf", scanned(deck))


def typeset(deck: DeckText) -> bytes:
    """The deck as a PDF with text and drawn charts."""
    stream = io.BytesIO()
    canvas = _canvas(stream, deck)
    _draw_cover(canvas, deck)
    for number, slide in enumerate(deck.slides, start=2):
        _draw_slide(canvas, deck, slide, number)
    canvas.save()
    return stream.getvalue()


def scanned(deck: DeckText) -> bytes:
    """The deck as a PDF of pictures, as a cheap scanner makes it."""
    stream = io.BytesIO()
    canvas = _canvas(stream, deck)
    noise = random.Random(SCAN_SEED)
    cover = Slide(deck.company, (deck.tagline,))
    for slide in (cover, *deck.slides):
        picture = ImageReader(io.BytesIO(_scan(slide, noise)))
        canvas.drawImage(picture, 0, 0, WIDTH, HEIGHT)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def _canvas(stream: io.BytesIO, deck: DeckText) -> Any:
    canvas: Any = Canvas(stream, pagesize=(WIDTH, HEIGHT), invariant=1, pageCompression=1)
    canvas.setTitle(deck.company)
    return canvas


def _draw_cover(canvas: Any, deck: DeckText) -> None:
    canvas.setFillColor(HexColor(deck.colour))
    canvas.rect(0, 0, WIDTH, HEIGHT, stroke=0, fill=1)
    canvas.setFillColor(HexColor("#FFFFFF"))
    canvas.setFont("Helvetica-Bold", 64)
    canvas.drawString(MARGIN, HEIGHT * 0.56, deck.company)
    canvas.rect(MARGIN, HEIGHT * 0.56 - 26, 96, 5, stroke=0, fill=1)
    _paragraph(canvas, deck.tagline, MARGIN, HEIGHT * 0.56 - 74, WIDTH * 0.7, size=24)
    canvas.showPage()


def _draw_slide(canvas: Any, deck: DeckText, slide: Slide, number: int) -> None:
    canvas.setFillColor(HexColor(deck.colour))
    canvas.rect(0, 0, 14, HEIGHT, stroke=0, fill=1)
    canvas.setFillColor(HexColor(INK))
    top = _paragraph(canvas, slide.title, MARGIN, HEIGHT - 92, WIDTH - 2 * MARGIN, size=34, font="Helvetica-Bold")
    width = (WIDTH - 2 * MARGIN) * (0.5 if slide.chart else 0.92)
    y = top - 44
    for point in slide.points:
        canvas.setFillColor(HexColor(deck.colour))
        canvas.circle(MARGIN + 5, y + 8, 4.5, stroke=0, fill=1)
        canvas.setFillColor(HexColor(INK))
        y = _paragraph(canvas, point, MARGIN + 26, y, width - 26, size=21 if slide.chart else 26) - 26
    if slide.chart:
        _draw_chart(canvas, slide.chart, deck.colour)
    canvas.setFillColor(HexColor(GREY))
    canvas.setFont("Helvetica", 12)
    canvas.drawString(MARGIN, 30, deck.company)
    canvas.drawRightString(WIDTH - MARGIN, 30, str(number))
    canvas.showPage()


def _paragraph(
    canvas: Any, text: str, x: float, y: float, width: float, *, size: int, font: str = "Helvetica"
) -> float:
    """Draw `text` wrapped, from the baseline `y` down; the baseline after it."""
    canvas.setFont(font, size)
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and float(stringWidth(longer, font, size)) > width:
            canvas.drawString(x, y, line)
            y -= size * LINE_HEIGHT
            line = word
        else:
            line = longer
    canvas.drawString(x, y, line)
    return y - size * LINE_HEIGHT


def _draw_chart(canvas: Any, chart: Chart, colour: str) -> None:
    left, bottom, width, height = WIDTH * 0.58, 110.0, WIDTH * 0.34, 240.0
    canvas.setFillColor(HexColor(INK))
    canvas.setFont("Helvetica-Bold", 15)
    canvas.drawString(left, bottom + height + 34, chart.title)
    _draw_grid(canvas, left, bottom, width, height)
    step = width / len(chart.values)
    tops = [
        (left + step * (index + 0.5), bottom + height * 0.92 * value / max(chart.values))
        for index, value in enumerate(chart.values)
    ]
    canvas.setFillColor(HexColor(colour))
    canvas.setStrokeColor(HexColor(colour))
    if chart.kind == "bar":
        for x, y in tops:
            canvas.rect(x - step * 0.3, bottom, step * 0.6, y - bottom, stroke=0, fill=1)
    else:
        _draw_line(canvas, tops)
    canvas.setFont("Helvetica", 13)
    for (x, y), label, value in zip(tops, chart.labels, chart.values, strict=True):
        canvas.setFillColor(HexColor(INK))
        canvas.drawCentredString(x, y + 9, f"{value:,g}")
        canvas.setFillColor(HexColor(GREY))
        canvas.drawCentredString(x, bottom - 20, label)


def _draw_grid(canvas: Any, left: float, bottom: float, width: float, height: float) -> None:
    canvas.setStrokeColor(HexColor(PALE))
    canvas.setLineWidth(1)
    for quarter in range(5):
        y = bottom + height * quarter / 4
        canvas.line(left, y, left + width, y)


def _draw_line(canvas: Any, tops: list[tuple[float, float]]) -> None:
    canvas.setLineWidth(3)
    for start, end in pairwise(tops):
        canvas.line(*start, *end)
    for x, y in tops:
        canvas.circle(x, y, 5, stroke=0, fill=1)


def _scan(slide: Slide, noise: random.Random) -> bytes:
    """One page as a JPEG: drawn, turned a little, sprinkled with noise."""
    page = Image.new("L", (round(WIDTH * SCAN_SCALE), round(HEIGHT * SCAN_SCALE)), PAPER)
    draw = ImageDraw.Draw(page)
    x, y = 84.0, 96.0
    draw.text((x, y), slide.title, fill=30, font=_font(50, bold=True))
    draw.line((x, y + 78, x + 420, y + 78), fill=90, width=3)
    for row, point in enumerate(slide.points):
        draw.text((x, y + 130 + row * 82), f"- {point}", fill=45, font=_font(33))
    if slide.chart:
        _scan_chart(draw, slide.chart)
    turned = page.rotate(noise.uniform(-0.9, 0.9), resample=Image.Resampling.BICUBIC, fillcolor=PAPER - 12)
    pixels: Any = turned.load()
    for _ in range(SPECKS):
        spot = noise.randrange(turned.width), noise.randrange(turned.height)
        pixels[spot] = max(0, pixels[spot] - noise.randrange(20, 110))
    stream = io.BytesIO()
    turned.save(stream, "JPEG", quality=SCAN_QUALITY)
    return stream.getvalue()


def _scan_chart(draw: ImageDraw.ImageDraw, chart: Chart) -> None:
    left, bottom, height = 760, 610, 190
    for index, (label, value) in enumerate(zip(chart.labels, chart.values, strict=True)):
        x = left + index * 130
        draw.rectangle((x, bottom - height * value / max(chart.values), x + 80, bottom), fill=120)
        draw.text((x + 4, bottom + 8), label, fill=60, font=_font(22))


def _font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    folder = Path(str(reportlab.__file__)).parent / "fonts"
    return ImageFont.truetype(str(folder / ("VeraBd.ttf" if bold else "Vera.ttf")), size)


def _save(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    print(f"{path.name}: {len(data):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER)
