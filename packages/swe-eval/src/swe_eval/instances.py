"""One `Instance` for every row shape in use: an issue, the tree it belongs to, and the tests that decide about it.

An instance always lists at least one test; a row without any is refused when it is read (`shapes.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_CWD = "/testbed"
PASS_AND_FAIL = "pass_and_fail"
FAIL_ONLY = "fail_only"
EVAL_TYPES = (PASS_AND_FAIL, FAIL_ONLY)

Prompt = str | tuple[Mapping[str, str], ...]
"""The prompt of a reinforcement-learning row: a text, or chat messages with `role` and `content`."""


@dataclass(frozen=True)
class Instance:
    """One task.

    Attributes:
        instance_id: unique within a data set; safe as a file name.
        base_commit: what the patches apply to; empty where the row names none.
        patch: the gold patch; empty where the row has none.
        test_patch: the official tests as a patch against `base_commit`.
        fail_to_pass: ids of tests that fail without a fix and must pass with one, as the row lists them.
        pass_to_pass: ids of tests that pass before and must still pass.
        data_source: the data set that the row says it comes from; decides the image's name.
        image: the row's own image, if it names one.
        eval_script: the row's own evaluation script (SWE-bench from version 5, SWE-Gym for training).
        test_cmd: the row's own test command, for rows without a script.
        log_parser: the row's own log parser (official or short name).
        eval_type: `pass_and_fail`, or `fail_only` where logs name only the tests that fail.
        test_timeout: seconds for the tests, where the row sets a limit.
        prompt: the row's own prompt; None means that the agent builds one from `problem_statement`.
        row: the row as it was read, for export.
        where: file and line of the row, for messages.
    """

    instance_id: str
    problem_statement: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    repo: str = ""
    base_commit: str = ""
    hints_text: str = ""
    patch: bytes = b""
    test_patch: bytes = b""
    version: str = ""
    data_source: str | None = None
    image: str | None = None
    eval_script: str | None = None
    test_cmd: str | None = None
    log_parser: str | None = None
    eval_type: str = PASS_AND_FAIL
    cwd: str = DEFAULT_CWD
    test_timeout: float | None = None
    created_at: str = ""
    prompt: Prompt | None = None
    row: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    where: str = field(default="", compare=False)
