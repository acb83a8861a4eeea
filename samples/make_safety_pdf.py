"""Writes ferry/safety.pdf, the sample collection's PDF: two pages of text in Helvetica.

Usage: python samples/make_safety_pdf.py [PATH]. The same script gives the same bytes.
"""

import sys
from pathlib import Path

PAGES = (
    (
        "Safety on board the Marigold",
        "",
        "The Marigold was built in 2009. She is 52 metres long and may carry",
        "180 passengers and 24 cars. Her captain is Ruth Adeyemi.",
        "",
        "Life jackets",
        "Life jackets are kept under the seats of the main saloon. Life jackets",
        "for children are in the yellow locker beside the stairs.",
        "",
        "The alarm",
        "The alarm is seven short blasts and one long blast of the horn. When",
        "you hear it, go to the assembly station on the upper deck.",
        "",
        "Fire",
        "Smoking is not allowed anywhere on board. If you see a fire, press a red",
        "button and tell a member of the crew.",
    ),
    (
        "Wind and weather",
        "",
        "The ship does not sail when the wind is stronger than force 8. The",
        "decision is made one hour before departure and announced at the harbour",
        "and on the telephone line.",
        "",
        "Cars",
        "Nobody may stay in a car during the crossing. Electric cars may not be",
        "charged on board.",
        "",
        "First aid",
        "The first aid room is on the lower deck, next to the kiosk. Two members",
        "of the crew are trained in first aid on every sailing.",
    ),
)

_LINE_HEIGHT = 16
_TOP = 780
_FONT_OBJECT = 3
_FIRST_PAGE_OBJECT = 4


def pdf_bytes(pages: tuple[tuple[str, ...], ...]) -> bytes:
    """A PDF with one page of text lines for each tuple; the lines must be ASCII."""
    page_numbers = [_FIRST_PAGE_OBJECT + 2 * index for index in range(len(pages))]
    kids = " ".join(f"{number} 0 R" for number in page_numbers)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in zip(page_numbers, pages, strict=True):
        objects += [_page_object(number + 1), _content_object(lines)]
    return _file(objects)


def _page_object(content_number: int) -> str:
    return (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
        f"/Resources << /Font << /F1 {_FONT_OBJECT} 0 R >> >> /Contents {content_number} 0 R >>"
    )


def _content_object(lines: tuple[str, ...]) -> str:
    shown = "\n".join(f"({_escaped(line)}) '" for line in lines)
    stream = f"BT /F1 12 Tf {_LINE_HEIGHT} TL 60 {_TOP} Td\n{shown}\nET"
    return f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _file(objects: list[str]) -> bytes:
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("ascii")
    entries = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{entries}"
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + (table + trailer).encode("ascii")


if __name__ == "__main__":
    default = Path(__file__).parent / "ferry" / "safety.pdf"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    target.write_bytes(pdf_bytes(PAGES))
