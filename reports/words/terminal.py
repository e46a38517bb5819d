"""Markdown on a terminal: aligned, with what is worse in red and what is better in green."""

from rich.console import Console
from rich.markdown import Markdown
from rich.theme import Theme

_THEME = Theme({"markdown.strong": "bold red", "markdown.em": "green", "markdown.code": "cyan"})


def show(text: str) -> None:
    """Print a markdown document in which bold stands for worse and italics for better.

    On a terminal too narrow for a table the table keeps its width, since rich would cut the names of cases off.
    """
    widest = max((len(line) for line in text.splitlines() if line.startswith("|")), default=0)
    Console(theme=_THEME, width=max(Console().width, widest)).print(Markdown(text))
