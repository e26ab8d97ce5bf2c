"""Lines -> blocks."""

import re
from collections import namedtuple

HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
ITEM = re.compile(r"([*+-]|\d+[.)])\s+(.*)")
RULE = re.compile(r"([-*_])(\s*\1){2,}$")

Block = namedtuple("Block", "kind text level", defaults=("", 0))
# kind: heading (level 1 to 6), paragraph, item (text starts with its marker), quote, code, rule


def parse(markdown):
    """The blocks of a document."""
    blocks = []
    lines = iter(markdown.expandtabs(4).splitlines())
    open_lines = []

    def close():
        if open_lines:
            blocks.append(Block("paragraph", " ".join(open_lines)))
            open_lines.clear()

    for line in lines:
        stripped = line.strip()
        if stripped.startswith("```"):
            close()
            blocks.append(Block("code", "\n".join(_until_fence(lines))))
        elif not stripped:
            close()
        elif RULE.match(stripped):
            close()
            blocks.append(Block("rule"))
        elif HEADING.match(stripped):
            close()
            marks, text = HEADING.match(stripped).groups()
            blocks.append(Block("heading", text, len(marks)))
        elif ITEM.match(stripped):
            close()
            marker, text = ITEM.match(stripped).groups()
            marker = "-" if marker in "*+-" else marker
            blocks.append(Block("item", "%s %s" % (marker, text), len(line) - len(line.lstrip())))
        elif stripped.startswith(">"):
            close()
            text = stripped[1:].strip()
            if blocks and blocks[-1].kind == "quote":
                text = blocks.pop().text + " " + text
            blocks.append(Block("quote", text))
        else:
            open_lines.append(stripped)
    close()
    return blocks


def _until_fence(lines):
    for line in lines:
        if line.strip().startswith("```"):
            return
        yield line
