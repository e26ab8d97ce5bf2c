"""Joining two developments of one dict."""

from . import paths
from .changes import diff, patch
from .errors import MergeConflict


def merge(base, ours, theirs):
    """`base` with what changed on the way to `ours` and to `theirs`.

    The same change on both sides counts once. Raises MergeConflict when a place that one side changed is, contains or
    lies in a place that the other side changed differently.
    """
    our_changes, their_changes = diff(base, ours), diff(base, theirs)
    conflicts = set()
    for our in our_changes:
        for their in their_changes:
            if our != their and _touch(our.path, their.path):
                conflicts.add(min(our.path, their.path, key=len))
    if conflicts:
        raise MergeConflict(sorted(conflicts))
    return patch(ours, [change for change in their_changes if change not in our_changes])


def _touch(one, other):
    return paths.contains(one, other) or paths.contains(other, one)
