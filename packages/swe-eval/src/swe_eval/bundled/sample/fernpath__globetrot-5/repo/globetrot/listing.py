"""Lists of patterns, as in an ignore file."""

from .pattern import Pattern


class PatternList:
    """Patterns, one a line; the last one that matches a path decides."""

    def __init__(self, text=""):
        self._entries = []  # (wanted, Pattern)
        for line in text.splitlines():
            self.add(line)

    def add(self, line):
        """Add the pattern of one line; blank lines and comments add nothing. Raises PatternError."""
        line = line.strip()
        if not line or line.startswith("#"):
            return
        wanted = not line.startswith("!")
        self._entries.append((wanted, Pattern(line if wanted else line[1:])))

    def __len__(self):
        return len(self._entries)

    def matches(self, path):
        for wanted, pattern in reversed(self._entries):
            if pattern.matches(path):
                return wanted
        return False


def select(paths, include="**", exclude=""):
    """The paths that `include` matches and `exclude` (texts of pattern lists) does not, in their order."""
    included, excluded = PatternList(include), PatternList(exclude)
    return [path for path in paths if included.matches(path) and not excluded.matches(path)]
