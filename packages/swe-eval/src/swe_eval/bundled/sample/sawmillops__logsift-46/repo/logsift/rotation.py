"""Which files make up a log."""

import os
import re

SUFFIX = re.compile(r"\.(\d+|\d{4}-\d\d-\d\d)(\.gz)?")


def log_parts(path):
    """The paths of all parts of the log at `path`, the oldest first; the current file, if it is there, is the last."""
    directory, name = os.path.split(path)
    parts = []
    for entry in os.listdir(directory or "."):
        if entry.startswith(name) and SUFFIX.fullmatch(entry[len(name) :]):
            parts.append(entry)
    parts.sort(reverse=True)
    if os.path.exists(path):
        parts.append(name)
    return [os.path.join(directory, part) for part in parts]
