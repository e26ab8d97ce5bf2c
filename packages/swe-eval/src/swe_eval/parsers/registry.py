"""The table of facts: which parser reads which repository's logs, under the names that rows use."""

from collections.abc import Callable, Mapping

from swe_eval.instances import Instance
from swe_eval.parsers.pytest_summary import read_matplotlib, read_pytest, read_pytest_options, read_pytest_v2
from swe_eval.parsers.readings import Parser, Reading
from swe_eval.parsers.sympy_log import read_sympy
from swe_eval.parsers.unittest_verbose import read_django, read_unittest

_FORMATS: Mapping[str, Callable[[str], list[Reading]]] = {
    "pytest": read_pytest,
    "pytest_options": read_pytest_options,
    "pytest_v2": read_pytest_v2,
    "matplotlib": read_matplotlib,
    "seaborn": read_pytest_v2,
    "django": read_django,
    "sympy": read_sympy,
    "unittest": read_unittest,
}

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "pytest": ("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"),
    "pytest_options": ("pydicom", "requests", "pylint"),
    "pytest_v2": ("astropy", "scikit", "sphinx"),
}

PREFIX = "parse_log_"

PARSERS: Mapping[str, Parser] = {
    name: Parser(f"{PREFIX}{form}", read) for form, read in _FORMATS.items() for name in (form, *_ALIASES.get(form, ()))
}
"""Short name -> parser. The official name is the short one with `parse_log_` in front."""

REPOSITORIES: Mapping[str, str] = {
    # SWE-bench
    "astropy/astropy": "astropy",
    "django/django": "django",
    "marshmallow-code/marshmallow": "marshmallow",
    "matplotlib/matplotlib": "matplotlib",
    "mwaskom/seaborn": "seaborn",
    "pallets/flask": "flask",
    "psf/requests": "requests",
    "pvlib/pvlib-python": "pvlib",
    "pydata/xarray": "xarray",
    "pydicom/pydicom": "pydicom",
    "pylint-dev/astroid": "astroid",
    "pylint-dev/pylint": "pylint",
    "pytest-dev/pytest": "pytest",
    "pyvista/pyvista": "pyvista",
    "scikit-learn/scikit-learn": "scikit",
    "sphinx-doc/sphinx": "sphinx",
    "sqlfluff/sqlfluff": "sqlfluff",
    "sympy/sympy": "sympy",
    # SWE-Gym
    "bokeh/bokeh": "pytest",
    "conan-io/conan": "pytest",
    "dask/dask": "pytest",
    "facebookresearch/hydra": "pytest",
    "getmoto/moto": "pytest",
    "iterative/dvc": "pytest",
    "modin-project/modin": "pytest",
    "pandas-dev/pandas": "pytest",
    "project-monai/monai": "pytest",
    "pydantic/pydantic": "pytest",
    "python/mypy": "pytest",
}
"""Repository in lower case -> short name of its parser."""


class UnknownParserError(ValueError):
    """No parser by this name, or none for this repository. Its message is one line with the choices."""


def parser_named(name: str) -> Parser:
    """The parser of an official (`parse_log_django`) or short (`django`) name. Raises `UnknownParserError`."""
    parser = PARSERS.get(name.strip().removeprefix(PREFIX))
    if parser is None:
        raise UnknownParserError(f"no log parser {name!r}; there are {', '.join(sorted(PARSERS))}")
    return parser


def parser_for(instance: Instance) -> Parser:
    """The parser of the row's `log_parser`, else of its repository. Raises `UnknownParserError`."""
    if instance.log_parser:
        return parser_named(instance.log_parser)
    name = REPOSITORIES.get(instance.repo.lower())
    if name is None:
        raise UnknownParserError(
            f"{instance.instance_id}: no log parser is known for repository {instance.repo or '(none)'!r}; "
            f"give the row a log_parser, one of {', '.join(sorted(PARSERS))}"
        )
    return PARSERS[name]
