"""A one-page PDF writer, with the standard library only."""

from __future__ import annotations


def make_pdf(title: str, text: str) -> bytes:
    """A document of one page. Equal text gives equal bytes: it contains no date and nothing random."""
    page = f"BT /F1 20 Tf 60 760 Td ({_escape(title)}) Tj /F1 12 Tf 0 -36 Td ({_escape(text)}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 6 0 R >>",
        f"<< /Length {len(page)} >>\nstream\n{page}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Font << /F1 5 0 R >> >>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return body + f"{end}startxref\n{len(body)}\n%%EOF\n".encode()


def _escape(text: str) -> str:
    latin = text.encode("latin-1", "replace").decode("latin-1")
    return latin.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
