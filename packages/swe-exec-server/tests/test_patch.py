"""Patches as bytes: what is split, dropped, refused and completed."""

import base64
import re
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swe_exec_server.patch import (
    MalformedPatch,
    drop_paths,
    is_blank,
    normalise,
    split_files,
    touched_paths,
    validate,
)
from swe_exec_server.patch_paths import decode, encode, unquote

TEXT = b"""diff --git a/hello.py b/hello.py
index 1111111..2222222 100644
--- a/hello.py
+++ b/hello.py
@@ -1,4 +1,4 @@
 one
-two
+TWO
 three
 four
"""
RENAME = b"""diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
"""
COPY = b"""diff --git a/one.txt b/two.txt
similarity index 100%
copy from one.txt
copy to two.txt
"""
MODE = b"""diff --git a/run me.sh b/run me.sh
old mode 100644
new mode 100755
"""
EMPTY_NEW = b"""diff --git a/pkg/__init__.py b/pkg/__init__.py
new file mode 100644
index 0000000..e69de29
"""
DELETED = b"""diff --git a/gone.py b/gone.py
deleted file mode 100644
index 1111111..0000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""
SYMLINK = b"""diff --git a/link b/link
new file mode 120000
index 0000000..1111111
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+target
\\ No newline at end of file
"""
QUOTED = b"""diff --git "a/d\\303\\257r/tab\\there.txt" "b/d\\303\\257r/tab\\there.txt"
index 1111111..2222222 100644
--- "a/d\\303\\257r/tab\\there.txt"
+++ "b/d\\303\\257r/tab\\there.txt"
@@ -1 +1 @@
-x
+y
"""
PLAIN = b"""--- a/plain.c\t2020-01-01 00:00:00
+++ b/plain.c\t2020-01-01 00:00:01
@@ -1,2 +1,2 @@
 keep
-- a line that begins with a dash
+++ b/not a header, an added line
"""
CRLF = b"""diff --git a/dos.txt b/dos.txt
index 1111111..2222222 100644
--- a/dos.txt
+++ b/dos.txt
@@ -1,2 +1,2 @@
 one\r
-two\rlone\r
+TWO\rlone\r
"""


def binary_section(path: str, content: bytes) -> bytes:
    packed = zlib.compress(content)
    lines = []
    for begin in range(0, len(packed), 52):
        part = packed[begin : begin + 52]
        mark = chr(64 + len(part)) if len(part) <= 26 else chr(70 + len(part))
        lines.append(mark.encode() + base64.b85encode(part + b"\0" * (-len(part) % 4)))
    body = b"\n".join(lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex {'0' * 40}..{'1' * 40}\n"
        f"GIT binary patch\nliteral {len(content)}\n"
    ).encode() + (body + b"\n\nliteral 0\nHcmV?d00001\n\n")


BINARY = binary_section("blob.bin", bytes(range(256)) * 3)
SECTIONS = [TEXT, RENAME, COPY, MODE, EMPTY_NEW, DELETED, SYMLINK, QUOTED, PLAIN, CRLF, BINARY]


def test_every_kind_of_section_is_recognised() -> None:
    files = split_files(b"".join(SECTIONS))
    assert [file.raw for file in files] == SECTIONS
    assert [(file.old_path, file.new_path) for file in files] == [
        ("hello.py", "hello.py"),
        ("old name.txt", "new name.txt"),
        ("one.txt", "two.txt"),
        ("run me.sh", "run me.sh"),
        (None, "pkg/__init__.py"),
        ("gone.py", None),
        (None, "link"),
        ("dïr/tab\there.txt", "dïr/tab\there.txt"),
        ("plain.c", "plain.c"),
        ("dos.txt", "dos.txt"),
        (None, "blob.bin"),
    ]
    kinds = ("created", "deleted", "renamed", "copied", "mode_changed", "binary", "symlink")
    assert [tuple(kind for kind in kinds if getattr(file, kind)) for file in files] == [
        (),
        ("renamed",),
        ("copied",),
        ("mode_changed",),
        ("created",),
        ("deleted",),
        ("created", "symlink"),
        (),
        (),
        (),
        ("created", "binary"),
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_well_formed_sections_are_valid_and_left_as_they_are(section: bytes) -> None:
    validate(section)
    assert normalise(section) == section


def test_touched_paths_hold_both_ends_of_a_rename() -> None:
    assert touched_paths(RENAME + DELETED) == {"old name.txt", "new name.txt", "gone.py"}


def test_touched_paths_hold_names_that_contradict_the_header() -> None:
    hidden = TEXT.replace(b"+++ b/hello.py", b"+++ b/tests/test_hello.py")
    assert touched_paths(hidden) == {"hello.py", "tests/test_hello.py"}


def test_names_are_stripped_of_one_component_whatever_it_is() -> None:
    assert touched_paths(b"--- x/tests/t.py\n+++ y/tests/t.py\n@@ -1 +1 @@\n-a\n+b\n") == {"tests/t.py"}


@pytest.mark.parametrize(
    ("name", "path"),
    [(rb"a\"b", b'a"b'), (rb"a\\b", rb"a\b"), (rb"\377x", b"\xffx"), (rb"\a\b\t\n\v\f\r", b"\a\b\t\n\v\f\r")],
)
def test_quoted_names(name: bytes, path: bytes) -> None:
    assert unquote(name) == path


def test_text_around_sections_is_no_section() -> None:
    mail = b"From 123\nSubject: [PATCH] x\n---\n hello.py | 2 +-\n\n" + TEXT + b"-- \n2.39.2\n\n"
    validate(mail)
    (file,) = split_files(mail)
    assert file.old_path == "hello.py"
    assert mail.endswith(file.raw)


def test_a_fenced_patch_keeps_its_fence() -> None:
    fenced = b"```diff\n" + TEXT + b"```\n"
    validate(fenced)
    assert normalise(fenced) == fenced


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (b"diff --git is a command; --- a/x +++ b/x are headers", "no file header"),
        (b"I could not find the bug.\n", "no file header"),
        (b" \n", "empty"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "without a file header"),
        (b"diff --git a/x b/x\n", "without any change"),
        (TEXT + b"diff --git a/x b/x\nindex 1..2 100644\n", "without any change"),
        (TEXT.replace(b"+1,4 @@", b"+1,9 @@"), "ends inside this hunk"),
        (TEXT.replace(b"-1,4 +1,4", b"-1,3 +1,3"), "more lines than its header"),
        (TEXT.replace(b"-1,4 +1,4", b"-1,5 +1,5") + MODE, "shorter than its header"),
        (TEXT.replace(b"-1,4 +1,4 @@", b"-1,x @@"), "can not be read"),
        (TEXT.partition(b"@@")[0], "no hunk"),
        (TEXT.partition(b"+++")[0], "without its '+++'"),
        (BINARY[:300], "ends inside this binary block"),
        (BINARY.replace(b"literal 768", b"literal 769"), "does not hold"),
        (BINARY.partition(b"literal")[0], "without its data"),
        (BINARY.partition(b"GIT")[0], "without the change"),
        (DELETED.partition(b"---")[0], "without the change"),
    ],
)
def test_malformed_patches_are_refused_in_one_line(patch: bytes, reason: str) -> None:
    with pytest.raises(MalformedPatch, match=re.escape(reason)) as caught:
        validate(patch)
    assert "\n" not in str(caught.value)


def test_the_first_fault_is_named_with_its_line() -> None:
    with pytest.raises(MalformedPatch, match=r"^line 8: "):
        validate(MODE + TEXT.replace(b"-1,4 +1,4", b"-1,3 +1,3"))


def test_binary_files_without_content_are_left_to_the_apply_chain() -> None:
    validate(TEXT + b"diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n")


def test_a_lost_final_newline_comes_back() -> None:
    assert normalise(TEXT[:-1]) == TEXT
    assert normalise(CRLF[:-1]) == CRLF


@pytest.mark.parametrize("count", [1, 2, 3])
def test_stripped_blank_context_comes_back(count: int) -> None:
    lines = 2 + count
    patch = f"--- a/x\n+++ b/x\n@@ -1,{lines} +1,{lines} @@\n a\n-b\n+c\n".encode() + b" \n" * count
    assert normalise(patch.strip()) == patch
    validate(normalise(patch.strip()))


def test_a_hunk_cut_off_earlier_is_not_made_up() -> None:
    cut = b"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+c\n"
    assert normalise(cut) == cut
    before_any_change = b"--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n a\n"
    assert normalise(before_any_change) == before_any_change


def test_the_blank_line_behind_a_binary_block_comes_back() -> None:
    assert normalise(BINARY.strip()) == BINARY
    cut = BINARY[:200]
    with pytest.raises(MalformedPatch):
        validate(normalise(cut))


def test_dropping_a_path_takes_its_rename_as_a_whole() -> None:
    kept, dropped = drop_paths(TEXT + RENAME + MODE, ["old name.txt", "nowhere"])
    assert (kept, dropped) == (TEXT + MODE, ["old name.txt"])


def test_dropping_all_leaves_a_blank_patch() -> None:
    kept, dropped = drop_paths(b"Subject: x\n\n" + TEXT, {"hello.py"})
    assert is_blank(kept)
    assert dropped == ["hello.py"]


def test_dropping_nothing_changes_nothing() -> None:
    patch = b"Some words\n" + TEXT[:-1]
    assert drop_paths(patch, {"other.py"}) == (patch, [])


# A plain section behind a header without hunks would be read as that header's, by git too.
any_sections = st.lists(st.sampled_from([section for section in SECTIONS if section != PLAIN]), min_size=1, max_size=8)


@given(any_sections)
def test_sections_come_out_as_they_went_in(sections: list[bytes]) -> None:
    assert [file.raw for file in split_files(b"".join(sections))] == sections


@given(any_sections, st.sets(st.sampled_from(sorted(touched_paths(b"".join(SECTIONS))))))
def test_what_is_left_after_a_drop_is_exactly_the_rest(sections: list[bytes], paths: set[str]) -> None:
    kept, dropped = drop_paths(b"".join(sections), paths)
    assert kept == b"".join(section for section in sections if not touched_paths(section) & paths)
    assert set(dropped) == touched_paths(b"".join(sections)) & paths


@given(
    st.binary(max_size=400) | st.builds(lambda parts, cut: b"".join(parts)[:cut], any_sections, st.integers(0, 3000))
)
def test_anything_is_read_without_an_exception_and_normalising_is_idempotent(data: bytes) -> None:
    files = split_files(data)
    assert data.endswith(b"".join(file.raw for file in files))
    once = normalise(data)
    assert once.startswith(data)
    assert normalise(once) == once
    try:
        validate(data)
    except MalformedPatch as error:
        assert "\n" not in str(error)


@given(st.binary())
def test_any_path_survives_as_text(path: bytes) -> None:
    assert encode(decode(path)) == path


file_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name.strip(".") != "" and name.lower() != ".git" and len(name.encode()) < 200)


@given(st.sets(file_names, min_size=1, max_size=4), st.booleans())
def test_names_that_git_writes_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], quote: bool
) -> None:
    root = tmp_path_factory.mktemp("names")
    directory = root / "a dir b"
    directory.mkdir()
    for number, name in enumerate(sorted(names)):
        (directory / name).write_bytes(b"" if number % 2 else b"x\n")
    git = ["git", "-C", str(root), "-c", f"core.quotePath={str(quote).lower()}", "-c", "core.protectNTFS=false"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A", "-f"], check=True)
    patch = subprocess.run([*git, "diff", "--cached"], check=True, capture_output=True).stdout
    validate(patch)
    assert touched_paths(patch) == {f"a dir b/{name}" for name in names}


@pytest.mark.parametrize(
    ("patch", "begin", "end"),
    [
        (TEXT, TEXT.index(b"--- a"), TEXT.index(b"four")),
        (BINARY, BINARY.index(b"GIT binary"), BINARY.index(b"\n\nliteral 0") + 2),
        (DELETED, DELETED.index(b"--- a"), DELETED.index(b"bye")),
    ],
)
def test_a_change_cut_off_anywhere_is_malformed(patch: bytes, begin: int, end: int) -> None:
    for cut in range(begin, end):
        with pytest.raises(MalformedPatch):
            validate(MODE + patch[:cut])
