"""Tables on a narrow terminal: no line is wider than it, and no figure or column is lost."""

from reports.tables.folded import folded
from reports.words.markdown import markdown

COLUMNS = ("Case", "At", "Speed, ratio", "To", "Verdict")
ROWS = [
    [
        "`cpu-resnet50-micro-onnx-fp32`",
        "offline, batch 1",
        "1.01 (0.92 to 1.18)",
        "HEAD~1 (5e9b3e9)",
        "not slower",
    ],
    [
        "`cpu-resnet50-micro-onnx-fp32`",
        "online, concurrency 32",
        "-",
        "a|b",
        "not shown, an hour or more would settle it",
    ],
]
TABLE = markdown(COLUMNS, ROWS, "lllll")
SENTENCE = "Each interval is that of its point alone, " * 5


def test_each_row_is_a_paragraph_that_names_its_columns_where_the_table_is_too_wide() -> None:
    text = folded(f"{TABLE}\n\n{SENTENCE}", 80)
    words = " ".join(text.split())

    assert max(len(line) for line in text.splitlines()) <= 80
    assert words.count("`cpu-resnet50-micro-onnx-fp32`; At: ") == 2
    assert "Speed, ratio: 1.01 (0.92 to 1.18); To: HEAD~1 (5e9b3e9); Verdict: not slower" in words
    assert "Speed, ratio: -" not in words, "a cell without a figure says nothing"
    assert "an hour or more would settle it" in words
    assert " ".join(SENTENCE.split()) in words


def test_what_fits_stays_as_it_is() -> None:
    assert folded(TABLE, 200) == TABLE
