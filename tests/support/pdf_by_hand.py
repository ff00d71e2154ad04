"""PDF files written byte by byte, where a test decides what a producer would not let it: the order of glyphs,
their places, their mapping to Unicode, what is broken.

The font is not embedded: code = one 16-bit number, width 600/1000 em, `to_unicode` says what each code means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 600  # of every glyph, in thousandths of the font size


@dataclass(frozen=True, slots=True)
class Run:
    """Glyphs drawn by one operator: the first at (x, y) in points, each next one `advance` points on.

    `advance` below zero draws from right to left, one glyph at a time. `actual_text` is what the file claims
    the run says (ISO 32000-2, 14.9.4).
    """

    x: float
    y: float
    text: str
    advance: float | None = None
    actual_text: str | None = None
    size: float = 10.0

    def operators(self) -> str:
        codes = [f"{ord(char):04X}" for char in self.text]
        if self.advance is None:
            shown = f"<{''.join(codes)}> Tj"
        else:
            back = WIDTH - 1000 * self.advance / self.size
            shown = "[" + f" {back:.3f} ".join(f"<{code}>" for code in codes) + "] TJ"
        drawn = f"BT /F {self.size} Tf 1 0 0 1 {self.x} {self.y} Tm {shown} ET"
        if self.actual_text is None:
            return drawn
        claim = ("\ufeff" + self.actual_text).encode("utf-16-be").hex()
        return f"/Span <</ActualText <{claim}>>> BDC {drawn} EMC"


def pdf(pages: Sequence[Sequence[Run]], to_unicode: Mapping[int, str] | None = None) -> bytes:
    """A whole file; a code missing in `to_unicode` means the character with that number."""
    mapped = {ord(char): char for page in pages for run in page for char in run.text} | dict(to_unicode or {})
    lines = "\n".join(f"<{code:04X}> <{text.encode('utf-16-be').hex()}>" for code, text in mapped.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def\n"
        "1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{len(mapped)} beginbfchar\n{lines}\nendbfchar\nendcmap end end"
    )
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{7 + 2 * n} 0 R' for n in range(len(pages)))}]>>",
        "<</Type/Font/Subtype/Type0/BaseFont/Sans/Encoding/Identity-H/DescendantFonts[4 0 R]/ToUnicode 6 0 R>>",
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/Sans/DW {WIDTH}/FontDescriptor 5 0 R"
        "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
        "<</Type/FontDescriptor/FontName/Sans/Flags 4/FontBBox[0 -200 600 800]/ItalicAngle 0/Ascent 800"
        "/Descent -200/CapHeight 700/StemV 80>>",
        _stream(cmap),
    ]
    for number, page in enumerate(pages):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {8 + 2 * number} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>"
        )
        objects.append(_stream("\n".join(run.operators() for run in page)))
    return assemble(objects)


def assemble(objects: Sequence[str]) -> bytes:
    """A file of these objects, numbered from 1 on; object 1 is the catalogue."""
    body = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("ascii")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    return bytes(body) + end.encode("ascii")


def _stream(content: str) -> str:
    return f"<</Length {len(content)}>>\nstream\n{content}\nendstream"
