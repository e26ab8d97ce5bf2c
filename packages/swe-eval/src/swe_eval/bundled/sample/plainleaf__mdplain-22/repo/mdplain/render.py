"""Blocks -> text."""

import textwrap

from .inline import plain

UNDERLINE = {1: "=", 2: "-"}


def _fill(text, width, first="", rest=""):
    if width is None:
        return first + text
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False)


def _block(block, width):
    if block.kind == "code":
        return textwrap.indent(block.text, "    ")
    if block.kind == "rule":
        return "-" * (width or 20)
    text = plain(block.text)
    if block.kind == "heading":
        if block.level == 1:
            text = text.upper()
        mark = UNDERLINE.get(block.level)
        return "%s\n%s" % (text, mark * len(text)) if mark else text
    if block.kind == "item":
        marker, _, text = text.partition(" ")
        indent = " " * block.level
        return _fill(text, width, indent + marker + " ", indent + " " * (len(marker) + 1))
    if block.kind == "quote":
        return _fill(text, width, "| ", "| ")
    return _fill(text, width)


def render(blocks, width=None):
    """The text of the blocks, one empty line between them, none between the items of a list."""
    parts = []
    previous = None
    for block in blocks:
        if previous is not None:
            parts.append("\n" if previous == block.kind == "item" else "\n\n")
        parts.append(_block(block, width))
        previous = block.kind
    return "".join(parts)
