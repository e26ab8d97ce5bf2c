"""Finding and applying changes."""

import copy
from dataclasses import dataclass
from typing import Any

from . import paths
from .errors import PatchError


@dataclass(frozen=True)
class Add:
    path: str
    value: Any

    def __str__(self):
        return "+ %s: %r" % (self.path, self.value)


@dataclass(frozen=True)
class Remove:
    path: str
    value: Any

    def __str__(self):
        return "- %s: %r" % (self.path, self.value)


@dataclass(frozen=True)
class Change:
    path: str
    old: Any
    new: Any

    def __str__(self):
        return "~ %s: %r -> %r" % (self.path, self.old, self.new)


def diff(old, new):
    """The changes that lead from one dict to another, sorted by path."""
    found = list(_walk(old, new, ()))
    return sorted(found, key=lambda change: change.path)


def _walk(old, new, keys):
    for key in sorted(set(old) | set(new)):
        here = keys + (key,)
        path = paths.join(here)
        if key not in new:
            yield Remove(path, old[key])
        elif key not in old:
            yield Add(path, new[key])
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            yield from _walk(old[key], new[key], here)
        elif old[key] != new[key] or type(old[key]) is not type(new[key]):
            yield Change(path, old[key], new[key])


def patch(root, changes):
    """A copy of `root` with the changes made. Raises PatchError where one does not fit."""
    result = copy.deepcopy(root)
    for change in changes:
        keys = paths.split(change.path)
        try:
            node = paths.descend(result, keys)
        except (KeyError, TypeError) as error:
            raise PatchError("no place for %s (%s)" % (change, error))
        _apply(node, keys[-1], change)
    return result


def _apply(node, key, change):
    if isinstance(change, Add):
        if key in node:
            raise PatchError("%s is there already" % change.path)
        node[key] = copy.deepcopy(change.value)
        return
    expected = change.value if isinstance(change, Remove) else change.old
    if key not in node or node[key] != expected:
        raise PatchError("%s is not %r" % (change.path, expected))
    if isinstance(change, Remove):
        del node[key]
    else:
        node[key] = copy.deepcopy(change.new)
