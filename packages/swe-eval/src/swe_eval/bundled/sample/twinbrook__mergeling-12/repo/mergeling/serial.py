"""Changes <-> JSON text."""

import json

from .changes import Add, Change, Remove

KINDS = {"+": Add, "-": Remove, "~": Change}
MARKS = {kind: mark for mark, kind in KINDS.items()}


def to_json(changes):
    """One JSON array a line: mark, path, and one or two values."""
    lines = []
    for change in changes:
        values = [change.old, change.new] if isinstance(change, Change) else [change.value]
        lines.append(json.dumps([MARKS[type(change)], change.path] + values, sort_keys=True))
    return "\n".join(lines) + "\n" if lines else ""


def from_json(text):
    """The changes of such a text. Raises ValueError with the line number."""
    changes = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            mark, path, *values = json.loads(line)
            changes.append(KINDS[mark](path, *values))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("line %d: %s" % (number, error))
    return changes
