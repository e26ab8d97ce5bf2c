"""The row's own image, else its data source's rule, else a reason."""

import pytest
from swe_eval.images import SOURCES, UnknownImage, image_for
from swe_eval.instances import Instance


def instance(instance_id: str, *, source: str | None = None, image: str | None = None) -> Instance:
    return Instance(instance_id, "", ("t",), (), data_source=source, image=image)


@pytest.mark.parametrize(
    ("source", "image"),
    [
        ("princeton-nlp/SWE-bench_Verified", "swebench/sweb.eval.x86_64.c_1776_d-2:latest"),
        ("princeton-nlp/SWE-bench", "swebench/sweb.eval.x86_64.c_1776_d-2:latest"),
        ("SWE-bench/SWE-bench_Lite", "swebench/sweb.eval.x86_64.c_1776_d-2:latest"),
        ("swe-bench", "swebench/sweb.eval.x86_64.c_1776_d-2:latest"),
        ("SWE-Gym/SWE-Gym", "xingyaoww/sweb.eval.x86_64.c_s_d-2:latest"),
        ("SumanthRH/SWE-Gym-Subset", "xingyaoww/sweb.eval.x86_64.c_s_d-2:latest"),
        ("NovaSky-AI/SkyRL-v0-293-data", "xingyaoww/sweb.eval.x86_64.c_s_d-2:latest"),
        ("Swe-Gym", "xingyaoww/sweb.eval.x86_64.c_s_d-2:latest"),
    ],
)
def test_rule_of_the_data_source(source: str, image: str) -> None:
    assert image_for(instance("c__D-2", source=source)) == image


def test_the_rows_own_image_wins_over_every_rule() -> None:
    assert image_for(instance("a__b-1", source="swe-gym", image="mine:1"), "swe-bench") == "mine:1"


def test_the_default_source_is_only_for_rows_without_one() -> None:
    assert image_for(instance("a__b-1"), "swe-bench") == "swebench/sweb.eval.x86_64.a_1776_b-1:latest"
    own = image_for(instance("a__b-1", source="swe-gym"), "swe-bench")
    assert own == "xingyaoww/sweb.eval.x86_64.a_s_b-1:latest"


@pytest.mark.parametrize("source", [None, "somewhere/else", "princeton-nlp/other"])
def test_an_unknown_source_names_the_id_and_the_choices(source: str | None) -> None:
    unknown = image_for(instance("a__b-1", source=source))
    assert isinstance(unknown, UnknownImage)
    assert unknown.reason.startswith("a__b-1: ")
    assert all(pattern in unknown.reason for pattern, _ in SOURCES)
