"""Markdown on a terminal: aligned to its width, with what is worse in red and what is better in green."""

from rich.console import Console
from rich.markdown import Markdown
from rich.theme import Theme

_THEME = Theme({"markdown.strong": "bold red", "markdown.em": "green", "markdown.code": "cyan"})


def show(text: str) -> None:
    """Print a markdown document in which bold stands for worse and italics for better."""
    Console(theme=_THEME).print(Markdown(text))
