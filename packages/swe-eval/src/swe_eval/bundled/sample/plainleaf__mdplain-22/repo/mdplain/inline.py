"""What stands inside a line: emphasis, code, links."""

import re

ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>])")
CODE = re.compile(r"(`+)(.+?)\1")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
EMPHASIS = re.compile(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)")

# Protected pieces travel through the substitutions as one private-use character each.
FIRST_PRIVATE = 0xE000


def plain(text):
    """`text` without inline markup."""
    kept = []

    def keep(value):
        kept.append(value)
        return chr(FIRST_PRIVATE + len(kept) - 1)

    text = CODE.sub(lambda match: keep(match.group(2).strip()), text)
    text = ESCAPED.sub(lambda match: keep(match.group(1)), text)
    text = IMAGE.sub(lambda match: "[%s]" % match.group(1), text)
    text = LINK.sub(_link, text)
    text = STRONG.sub(r"\2", text)
    text = EMPHASIS.sub(r"\2", text)
    for number, value in enumerate(kept):
        text = text.replace(chr(FIRST_PRIVATE + number), value)
    return text


def _link(match):
    label, target = match.groups()
    return label if label == target else "%s (%s)" % (label, target)
