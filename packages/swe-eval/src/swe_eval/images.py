"""Which image an instance runs in. The row's own image always wins; a rule is never applied over it.

Without one, the row's data source decides. Image names follow the two public registries' conventions: lower case, and
since a double underscore is not allowed in a repository's name, `__` is written as that registry writes it.
"""

from dataclasses import dataclass

from swe_eval.instances import Instance


@dataclass(frozen=True)
class ImageRule:
    """How the images of a family of data sets are named: prefix + id in lower case + `:latest`."""

    prefix: str
    separator: str

    def image(self, instance_id: str) -> str:
        """The image of an instance id."""
        return f"{self.prefix}{instance_id.lower().replace('__', self.separator)}:latest"


@dataclass(frozen=True)
class UnknownImage:
    """No image can be named; `reason` says for which id and what the choices are."""

    reason: str


SWE_BENCH = ImageRule("swebench/sweb.eval.x86_64.", "_1776_")
SWE_GYM = ImageRule("xingyaoww/sweb.eval.x86_64.", "_s_")

SOURCES: tuple[tuple[str, ImageRule], ...] = (
    ("princeton-nlp/SWE-bench*", SWE_BENCH),
    ("SWE-bench/*", SWE_BENCH),
    ("swe-bench", SWE_BENCH),
    ("SWE-Gym/*", SWE_GYM),
    ("SumanthRH/SWE-Gym-Subset", SWE_GYM),
    ("NovaSky-AI/SkyRL-v0-293-data", SWE_GYM),
    ("swe-gym", SWE_GYM),
)
"""Data source (a star stands for any ending) and its rule. Upper and lower case are the same."""


def rule_for(source: str) -> ImageRule | None:
    """The rule of a data source, if there is one."""
    wanted = source.strip().lower()
    for pattern, rule in SOURCES:
        stem = pattern.lower()
        if wanted == stem or (stem.endswith("*") and wanted.startswith(stem[:-1])):
            return rule
    return None


def image_for(instance: Instance, default_source: str | None = None) -> str | UnknownImage:
    """The image of an instance; `default_source` counts only for rows that carry no source of their own."""
    if instance.image:
        return instance.image
    source = instance.data_source or default_source
    rule = rule_for(source) if source else None
    if rule is not None:
        return rule.image(instance.instance_id)
    what = f"data source {source!r} is unknown" if source else "the row has neither an image nor a data source"
    choices = ", ".join(pattern for pattern, _ in SOURCES)
    return UnknownImage(f"{instance.instance_id}: {what}; name the image in its row or choose a data source: {choices}")
