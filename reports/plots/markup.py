"""What matplotlib's SVG becomes: one small element with a title, a description and a digest, fit for a page."""

import re
from xml.sax.saxutils import escape

_FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_NUMBERS = re.compile(r'(?<=\s)(?:d|x|y|x1|x2|y1|y2|width|height|transform|points|viewBox)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}")
_UNUSED_ID = re.compile(r' id="([^"]*)"')


def finished(text: str, title: str, description: str, digest: str) -> str:
    """`text` without declaration, metadata and unused ids, with coordinates of two decimals."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = _NUMBERS.sub(lambda attribute: _LONG.sub(_rounded, attribute[0]), text)
    text = text.replace("'DejaVu Sans'", _FONTS)
    used = {*re.findall(r"#([\w-]+)", text)}
    text = _UNUSED_ID.sub(lambda found: found[0] if found[1] in used else "", text)
    text = re.sub(r"(?m)^ +", "", text)
    label = digest[:12]
    opening, closing, rest = text.partition(">")
    return (
        f'{opening} role="img" aria-labelledby="title-{label} description-{label}" data-digest="{digest}"{closing}\n'
        f'<title id="title-{label}">{escape(title)}</title>\n'
        f'<desc id="description-{label}">{escape(description)}</desc>{rest}'
    )


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
