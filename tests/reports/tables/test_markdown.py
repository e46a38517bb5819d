"""Foreign text in markdown renders literally."""

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tritonproof.reports.tables.rendering import (
    bold,
    code,
    italic,
    join_markdown,
    markdown,
    markdown_text,
    plain,
)
from tritonproof.reports.tables.table import Bullets, Column, table

HOSTILE = [
    "<script>alert(1)</script>",
    "\\<img src=x onerror=alert(1)>",
    "![seen](https://example.invalid/pixel.png)",
    "[here](javascript:alert(1))",
    "\\[here](javascript:alert(1))",
    "<https://example.invalid>",
    "a|b",
    "a\\|b",
    "` and [here](https://example.invalid)",
    "~~gone~~",
    "&lt;b&gt;",
    "# heading",
    "1. first",
    "> said",
    "```",
    "one\n\n<b>two</b>",
    "\x1b[31mred\x1b[0m\0",
    "```[here](javascript:alert(1))`a``b",
]
"""Text that would become HTML, a picture, a link, a cell, a block or a colour, also half escaped."""

LIVE = {
    *("html_inline", "html_block", "image", "link_open"),
    *("s_open", "heading_open", "blockquote_open", "fence"),
}

LITERAL = [
    "__init__",
    "*",
    "a**b**c",
    "*.onnx and *.plan",
    "a|b",
    "\\*x*",
    "[1](2)",
    "``",
    "&amp;",
    "**All is well**, *really*",
    r"C:\models\[a] 50 % & 3 < 4, HEAD~1, top-1 | top-5 <b>",
]
"""Names and texts that look like markup, but are plain."""


def tokens(source: str) -> list[Token]:
    """The tokens in GitHub's markdown."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [token for block in parser.parse(source) for token in (block, *(block.children or ()))]


def kinds(source: str) -> list[str]:
    return [token.type for token in tokens(source)]


def words(source: str) -> str:
    """The text that a reader of markdown sees."""
    return "".join(token.content for token in tokens(source) if token.type in ("text", "code_inline"))


@pytest.mark.parametrize("value", [*HOSTILE, *LITERAL])
@pytest.mark.parametrize(
    ("source", "kind", "count"),
    [
        (lambda value: markdown([table([Column("A", str), Column("B", str)], ["cpu", value])]), "td_open", 4),
        (lambda value: markdown([Bullets([value, f"said: {value}."])]), "list_item_open", 2),
        (lambda value: f"- {code(value)}: slower", "code_inline", 1),
        (lambda value: f"- {join_markdown([bold(value), value], ' ')}\n- {bold('x')}", "list_item_open", 2),
    ],
    ids=["cells", "list", "code", "emphasised"],
)
def test_text_stays_literal_in_markdown(source: object, kind: str, count: int, value: str) -> None:
    token_kinds = kinds(source(value))  # type: ignore[operator]
    assert token_kinds.count(kind) == count
    assert not LIVE & set(token_kinds)
    assert markdown_text(value).isprintable()
    assert code(value).isprintable()


@pytest.mark.parametrize("value", LITERAL)
def test_name_renders_as_written(value: str) -> None:
    assert words(markdown_text(value)) == value
    assert words(markdown([table([Column("", str)], [value])])) == value
    assert plain(bold(value)) == value.replace("`", "")


def test_long_text_keeps_beginning_and_end() -> None:
    shown = markdown_text("begin" + "x" * 10**6 + "end")
    assert len(shown) < 10_000
    assert shown.startswith("begin")
    assert shown.endswith("end")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (bold("slower"), "strong_open"),
        (join_markdown([italic("faster"), "(5 %)"], " "), "em_open"),
        ("run `a [x] b`", "code_inline"),
    ],
)
def test_own_formatting_is_kept(value: str, kind: str) -> None:
    assert kind in kinds(markdown_text(value))
    assert "[x]" in words(markdown_text("run `a [x] b`")), "no backslash is in the code"
