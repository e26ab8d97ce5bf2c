"""One pattern."""

import re

from .errors import PatternError
from .translate import translate_name

ANY_DEPTH = "**"


class Pattern:
    """A compiled pattern; `matches(path)` says whether a path is meant."""

    def __init__(self, text):
        if not text or text == "/":
            raise PatternError("empty pattern", text, 0)
        self.text = text
        self.directories_only = text.endswith("/")
        body = text.rstrip("/")
        self.anchored = "/" in body
        self._regex = re.compile(self._translate(body.lstrip("/")))

    def _translate(self, body):
        names = body.split("/")
        regex = "" if self.anchored else "(?:.*/)?"
        offset = len(self.text) - len(self.text.lstrip("/"))
        for number, name in enumerate(names):
            last = number == len(names) - 1
            if name == ANY_DEPTH:
                regex += ".*" if last else ".*/"
            else:
                regex += translate_name(name, self.text, offset) + ("" if last else "/")
            offset += len(name) + 1
        return regex + ("/.*" if self.directories_only else "(?:/.*)?")

    def matches(self, path):
        return self._regex.fullmatch(path) is not None

    def __repr__(self):
        return "Pattern(%r)" % self.text
