"""What matplotlib's SVG becomes: one small element with a title, a description and a digest, fit for a page."""

import re
from xml.etree import ElementTree

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_LONG = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"#([\w-]+)")


def finished(text: str, title: str, description: str, digest: str) -> str:
    """`text` without metadata, unused ids and empty groups, with coordinates of two decimals."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(text)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    used = {
        name
        for element in root.iter()
        for value in element.attrib.values()
        for name in _REFERENCE.findall(value)
    }
    for element in root.iter():
        _shorten(element, used)
    _unwrap(root)
    label = digest[:12]
    root.attrib |= {
        **{side: f"{float(root.attrib[side].removesuffix('pt')) * 4 / 3:g}" for side in ("width", "height")},
        "role": "img",
        "aria-labelledby": f"title-{label} description-{label}",
        "data-digest": digest,
        "font-family": FONTS,
    }
    texts = (("title", "title", title), ("desc", "description", description))
    for place, (tag, name, words) in enumerate(texts):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{label}"})
        element.text = words
        root.insert(place, element)
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _shorten(element: ElementTree.Element, used: set[str]) -> None:
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    for name, value in element.attrib.items():
        element.attrib[name] = _LONG.sub(_rounded, " ".join(value.split()))
    if "style" in element.attrib:
        element.attrib["style"] = element.attrib["style"].replace("font-family: 'DejaVu Sans'; ", "")


def _unwrap(element: ElementTree.Element) -> None:
    """Put what groups without attributes hold in their place."""
    for child in list(element):
        _unwrap(child)
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            place = list(element).index(child)
            element.remove(child)
            element[place:place] = list(child)


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
