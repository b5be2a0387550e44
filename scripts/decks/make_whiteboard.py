"""Draws the sample whiteboard of the shipped workshop: `python scripts/decks/make_whiteboard.py [FILE]`.

The picture is what a vision model reads. What the notes say is in the file as text as well, so that the play of the
planner, which sees no pictures, has something to plan from. The same notes always give the same picture.
"""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

import reportlab  # pyright: ignore[reportMissingTypeStubs]
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

SIZE = (1200, 800)
"""Pixels: readable for people and vision models, and small."""
NOTE = (300, 150)
NOTES_A_ROW = 3
TITLE = "TOOL LIBRARY"
NOTES = (
    ("goal", "open on 3 May,\nneighbours borrow tools"),
    ("todo", "paint the container\n(Ines)"),
    ("todo", "list 140 donated tools\n(Omar, 18 April)"),
    ("todo", "print the rules\n(Ines, 25 April)"),
    ("done", "container is here"),
    ("open", "who insures us?"),
)
COLOURS = {"goal": "#CFE8FF", "todo": "#FFF3B0", "done": "#D6F2C9", "open": "#FFD0CC"}
INK, BOARD, FRAME = "#22303C", "#FBFCFB", "#9AA5AD"
SEED = 20250301
MAX_TILT_DEGREES = 2.5
DEFAULT_FILE = Path(__file__).parents[2] / "workers" / "files" / "whiteboards" / "tool-library.png"


def main(file: Path) -> None:
    """Write the picture to `file`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    data = whiteboard()
    file.write_bytes(data)
    print(f"{file.name}: {len(data):,} bytes")


def whiteboard() -> bytes:
    """The whiteboard as a PNG."""
    board = Image.new("RGB", SIZE, BOARD)
    draw = ImageDraw.Draw(board)
    draw.rectangle((0, 0, SIZE[0] - 1, SIZE[1] - 1), outline=FRAME, width=14)
    draw.text((70, 60), TITLE, fill=INK, font=_font(56))
    draw.line((70, 136, 600, 132), fill=INK, width=5)
    tilts = random.Random(SEED)
    for number, (kind, text) in enumerate(NOTES):
        row, column = divmod(number, NOTES_A_ROW)
        note = _note(kind, text).rotate(
            tilts.uniform(-MAX_TILT_DEGREES, MAX_TILT_DEGREES), resample=Image.Resampling.BICUBIC, expand=True
        )
        board.paste(note, (70 + column * 365, 220 + row * 260), note)
    return _as_png(board)


def _note(kind: str, text: str) -> Image.Image:
    note = Image.new("RGBA", NOTE, COLOURS[kind])
    draw = ImageDraw.Draw(note)
    draw.text((16, 12), kind.upper(), fill=FRAME, font=_font(18))
    draw.multiline_text((16, 48), text, fill=INK, font=_font(22), spacing=10)
    if kind == "done":
        draw.line((12, 66, 240, 60), fill=INK, width=3)
    return note


def _as_png(board: Image.Image) -> bytes:
    said = PngInfo()
    said.add_text("Description", "\n".join(f"{kind}: {' '.join(text.split())}" for kind, text in NOTES))
    stream = io.BytesIO()
    board.quantize(64).save(stream, "PNG", optimize=True, pnginfo=said)
    return stream.getvalue()


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(Path(str(reportlab.__file__)).parent / "fonts" / "Vera.ttf"), size)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
