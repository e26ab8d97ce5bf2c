"""Git patches as bytes: split, filter, validate, complete. Pure; not one byte of what is kept ever changes.

What counts as a patch is what `git apply` reads: sections that begin with `diff --git`, or with `---` and `+++` lines,
and text around them, which is ignored. Stricter than git in one point: a hunk with more lines than its header
announces is malformed (git applies the first part and says nothing).

`normalise` repairs only what transports do to the end of a text: a lost final newline, up to three lost blank context
lines of the last hunk, the lost blank line after a complete binary block. Fences and prose are left where they are.
"""

from collections.abc import Collection

from swe_exec_server.patch_scan import FilePatch, scan

__all__ = [
    "FilePatch",
    "MalformedPatch",
    "drop_paths",
    "is_blank",
    "normalise",
    "split_files",
    "touched_paths",
    "validate",
]


class MalformedPatch(ValueError):
    """Text that is no patch, or half of one. Its message is one line."""


def split_files(patch: bytes) -> list[FilePatch]:
    """The file sections in order; text before the first one belongs to none. Never raises."""
    return scan(patch).sections


def touched_paths(patch: bytes) -> set[str]:
    """Every path a `-p1` application of `patch` could create, change, remove or read as a rename's source."""
    return {path for section in split_files(patch) for path in section.paths}


def drop_paths(patch: bytes, paths: Collection[str]) -> tuple[bytes, list[str]]:
    """`patch` without the sections that touch any of `paths`, and which of those were found, in patch order.

    A rename goes as a whole when either end is among `paths`. Empty when no section is left.
    """
    found = scan(patch)
    unwanted = frozenset(paths)
    kept, dropped = [], dict[str, None]()
    for section in found.sections:
        hit = section.paths & unwanted
        if hit:
            dropped.update(dict.fromkeys(sorted(hit)))
        else:
            kept.append(section.raw)
    if not dropped:
        return patch, []
    return (found.preamble + b"".join(kept) if kept else b""), list(dropped)


def is_blank(patch: bytes) -> bool:
    """Nothing but white space."""
    return not patch.strip()


def validate(patch: bytes) -> None:
    """Raise `MalformedPatch` with one line that names the first fault; a blank patch is one."""
    if is_blank(patch):
        raise MalformedPatch("the patch is empty")
    found = scan(patch)
    problem = next((section.problem for section in found.sections if section.problem), found.problem)
    if problem:
        raise MalformedPatch(problem)


def normalise(patch: bytes) -> bytes:
    """`patch` with its end restored where that is certain (see the module's first lines); idempotent."""
    if is_blank(patch):
        return patch
    complete = patch if patch.endswith(b"\n") else patch + b"\n"
    return complete + scan(complete).missing_end
