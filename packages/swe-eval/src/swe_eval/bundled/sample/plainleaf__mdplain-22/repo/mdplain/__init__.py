"""Markdown to plain text."""

from .blocks import parse
from .render import render

__version__ = "1.0.2"
__all__ = ["parse", "render", "to_text"]


def to_text(markdown, width=None):
    """The plain text of a Markdown document, paragraphs filled to `width` columns if given."""
    return render(parse(markdown), width)
