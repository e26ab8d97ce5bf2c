"""`--data` in all its forms, and what is said when it is wrong."""

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from swe_eval.datasets import load
from swe_exec_server.common.errors import UsageError


def row(instance_id: str, **columns: Any) -> dict[str, Any]:
    return {"instance_id": instance_id, "problem_statement": "p", "FAIL_TO_PASS": ["t"], "PASS_TO_PASS": [], **columns}


def lines(*ids: str) -> bytes:
    return b"".join(json.dumps(row(name)).encode() + b"\n" for name in ids)


def ids(spec: object, environ: dict[str, str] | None = None) -> list[str]:
    return [instance.instance_id for instance in load(str(spec), environ=environ or {}).instances]


def refusal(spec: object, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        load(str(spec), environ=environ or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.jsonl", lines("a", "b")),
        ("crlf.jsonl", b"\xef\xbb\xbf" + lines("a", "b").replace(b"\n", b"\r\n")),
        ("nul.jsonl", lines("a") + b"\0" * 512 + b"\n\n" + lines("b")),
        ("no-final-newline.jsonl", lines("a", "b").rstrip()),
        ("r.jsonl.gz", gzip.compress(lines("a", "b"), mtime=0)),
        ("list.json", json.dumps([row("a"), row("b")]).encode()),
        ("data.json", json.dumps({"data": [row("a"), row("b")]}).encode()),
        ("really-lines.json", lines("a", "b")),
        ("no-suffix", lines("a", "b")),
    ],
)
def test_file_forms(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    dataset = load(str(tmp_path / name), environ={})
    assert [instance.instance_id for instance in dataset.instances] == ["a", "b"]
    assert dataset.files[0].sha256 == hashlib.sha256(data).hexdigest()
    assert dataset.files[0].rows == 2


def test_one_object_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(row("a"), indent=2))
    assert ids(tmp_path / "one.json") == ["a"]


def test_parquet_with_nested_instances(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"prompt": "p", "instance": row("a"), "data_source": "swe-gym"}])
    pq.write_table(table, tmp_path / "r.parquet")
    (instance,) = load(str(tmp_path / "r.parquet"), environ={}).instances
    assert (instance.instance_id, instance.fail_to_pass, instance.data_source) == ("a", ("t",), "swe-gym")


def test_directories_and_lists_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "d" / ".cache").mkdir(parents=True)
    (tmp_path / "d" / "2.jsonl").write_bytes(lines("c"))
    (tmp_path / "d" / "1.jsonl").write_bytes(lines("b"))
    (tmp_path / "d" / ".cache" / "3.jsonl").write_bytes(lines("hidden"))
    (tmp_path / "d" / "notes.txt").write_text("no rows")
    (tmp_path / "z.jsonl").write_bytes(lines("a"))
    assert ids(f"{tmp_path / 'z.jsonl'}, {tmp_path / 'd'}") == ["a", "b", "c"]


def test_names_are_files_of_the_environment(tmp_path: Path) -> None:
    for name in ("prompt", "verified", "gym"):
        (tmp_path / name).write_bytes(lines(name))
    own = {"VERIFIED_DATA": str(tmp_path / "verified"), "SWEGYM_DATA": str(tmp_path / "gym")}
    both = {**own, "PROMPT_DATA": str(tmp_path / "prompt")}
    assert ids("verified", own) == ["verified"]
    assert ids("verified", both) == ["prompt"]
    assert ids("swe-gym", {**own, "PROMPT_DATA": ""}) == ["gym"]
    assert ids("verified,swe-gym", both) == ["verified", "gym"]


def test_names_imply_the_data_source_of_rows_that_have_none(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(lines("a") + json.dumps(row("b", data_source="own")).encode() + b"\n")
    instances = load("lite", environ={"PROMPT_DATA": str(tmp_path / "r")}).instances
    assert [instance.data_source for instance in instances] == ["princeton-nlp/SWE-bench_Lite", "own"]
    assert load(str(tmp_path / "r"), environ={}).instances[0].data_source is None


def test_the_bundled_sample_loads() -> None:
    dataset = load("sample", environ={})
    assert len(dataset.instances) >= 12
    assert all(instance.test_cmd and instance.image for instance in dataset.instances)
    assert dataset.files[0].sha256 == load("sample", environ={}).files[0].sha256


def test_an_unknown_name_is_told_the_names() -> None:
    said = refusal("verifed")
    assert "sample, verified, lite, swe-gym" in said
    assert "nor a file or directory that exists" in said


def test_a_name_without_a_file_says_what_to_set(tmp_path: Path) -> None:
    assert "PROMPT_DATA or VERIFIED_DATA" in refusal("verified")
    assert "VERIFIED_DATA=/nowhere does not exist" in refusal("verified", {"VERIFIED_DATA": "/nowhere"})


def test_malformed_rows_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(lines("a") + b"{\n" + b"{}\n" * 5 + b"[]\n")
    said = refusal(path)
    assert f"{path}:2: no JSON" in said
    assert f"{path}:3: no instance_id" in said
    assert said.endswith("and 4 more rows like that")


def test_rows_without_tests_are_refused_with_their_id(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(json.dumps(row("a__b-1", FAIL_TO_PASS=[])))
    assert f"{path}:1: a__b-1 lists no tests" in refusal(path)


def test_duplicates_name_both_places(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(lines("a", "b"))
    (tmp_path / "2.jsonl").write_bytes(lines("c", "b"))
    said = refusal(tmp_path)
    assert f"b stands twice: {tmp_path / '1.jsonl'}:2 and {tmp_path / '2.jsonl'}:2" in said


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("r.parquet", b"PAR1 but no more", "cannot be read"),
        ("r.jsonl.gz", b"not gzip", "cannot be read"),
        ("r.jsonl", b"\n\n", "no rows in"),
        ("r.json", b"[1", "no JSON"),
        ("deep.json", b"[" * 100_000, "no JSON"),
        ("deep.jsonl", b"[" * 100_000, ":1: no JSON"),
        ("r.json", b'"text"', "a row must be a JSON object"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert said in refusal(tmp_path / name)


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "no row files" in refusal(tmp_path)


@pytest.mark.skipif(not os.environ.get("SWE_TEST_DATA"), reason="SWE_TEST_DATA names no directory of real rows")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("swebench_lite.jsonl", 300),
        ("swebench_verified_176.jsonl", 176),
        ("swegym_100.jsonl", 100),
        ("validated_20.jsonl", 20),
        ("sdist_django_3.jsonl", 3),
    ],
)
def test_real_rows(name: str, count: int) -> None:
    dataset = load(str(Path(os.environ["SWE_TEST_DATA"]) / name), environ={})
    assert len(dataset.instances) == count
    assert all(instance.base_commit and instance.patch and instance.test_patch for instance in dataset.instances)
