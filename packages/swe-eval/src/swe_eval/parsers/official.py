"""What the official harness, version 5.0.2, makes of a log. Nothing here decides a verdict: it only tells whether ours
would be another one (flag `differs_from_official`), so that published numbers can be compared.

It reads less than our parsers: ids end at the first white space (but in `pytest_v2`), colours hide a status (but simple
ones in `pytest_v2`), XPASS is unknown, and its own failure markers count wherever they stand.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swe_eval.instances import FAIL_ONLY

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
_FAILURES = (">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out")
_EXIT_CODE = re.compile(r">>>>> Test Exit Code:\s*(-?\d+)")
_WORDS = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_PASSING = ("PASSED", "XFAIL")

StatusMap = dict[str, str]


@dataclass(frozen=True)
class OfficialVerdict:
    """The official answer: resolved, and how many of each list passed."""

    resolved: bool
    f2p: int
    p2p: int


def official_verdict(
    content: str,
    parser: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    *,
    eval_type: str,
    exit_code: int | None,
) -> OfficialVerdict | None:
    """The official verdict on a log, or None for a parser that the official harness does not have.

    `content` is text as written, colours included; where it lacks either marker it is taken as what lies between them.
    """
    read = _READERS.get(parser)
    if read is None:
        return None
    if START not in content or END not in content:
        content = f"{START}\n{content}\n{END}\n"
    statuses = _statuses(content, read, exit_code)
    if eval_type == FAIL_ONLY:
        counts = [sum(statuses.get(test) != "FAILED" for test in tests) for tests in (fail_to_pass, pass_to_pass)]
        f2p, p2p = counts if statuses else (0, 0)
        return OfficialVerdict(f2p == len(fail_to_pass) and p2p == len(pass_to_pass) and bool(statuses), f2p, p2p)
    f2p, f2p_failed = _count([_status_of(test, statuses) for test in fail_to_pass], _PASSING)
    p2p, p2p_failed = _count([_status_of(test, statuses) for test in pass_to_pass], (*_PASSING, "SKIPPED"))
    return OfficialVerdict(not f2p_failed and not p2p_failed, f2p, p2p)


def _count(found: Sequence[str | None], passing: Sequence[str]) -> tuple[int, int]:
    """Passed and failed; what is no status at all (`PASSED:`) is neither."""
    passed = sum(status in passing for status in found)
    return passed, sum(status is None or (status in _WORDS and status not in passing) for status in found)


def _statuses(content: str, read: Callable[[str], StatusMap], exit_code: int | None) -> StatusMap:
    """Empty where the harness gives up on the whole log."""
    if any(failure in content for failure in _FAILURES):
        return {}
    statuses = read(content.split(START)[1].split(END)[0]) or read(content)
    recorded = _EXIT_CODE.search(content)
    code = int(recorded[1]) if recorded else exit_code
    if code not in (None, 0) and not any(status in ("FAILED", "ERROR") for status in statuses.values()):
        return {}
    return statuses


def _status_of(test: str, statuses: StatusMap) -> str | None:
    """An id with an open bracket stands for all ids that begin with it, if they agree."""
    if test in statuses or test.count("[") <= test.count("]"):
        return statuses.get(test)
    found = [status for read, status in statuses.items() if read.startswith(test)]
    agree = len({status in _PASSING for status in found}) == 1
    return found[0] if agree else None


def _summary_lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """(line, its words) of lines that begin with a status, without counts of skipped places."""
    for line in text.split("\n"):
        words = line.split()
        if line.startswith(_WORDS) and len(words) > 1 and not _counts_places(words):
            yield line, words


def _counts_places(words: Sequence[str]) -> bool:
    return words[0] == "SKIPPED" and re.fullmatch(r"\[\d+\]", words[1]) is not None


def _pytest(text: str) -> StatusMap:
    return {words[1]: words[0] for _, words in _summary_lines(text)}


def _pytest_options(text: str) -> StatusMap:
    return {_short_option(words[1]): words[0] for _, words in _summary_lines(text)}


def _short_option(test: str) -> str:
    match = re.match(r"(.*?)\[(.*)\]", test)
    if match is None:
        return test
    name, option = match.groups()
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rsplit("/", 1)[-1]
    return f"{name}[{option}]"


def _matplotlib(text: str) -> StatusMap:
    return _pytest(text.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


_CONTROLS = dict.fromkeys(range(1, 32))


def _pytest_v2(text: str) -> StatusMap:
    statuses: StatusMap = {}
    for raw in text.split("\n"):
        line = re.sub(r"\[\d+m", "", raw).translate(_CONTROLS)
        if line.startswith(_WORDS):
            words = (line.split(" - ", 1)[0] if line.startswith("FAILED") else line).split()
            if len(words) > 1 and not _counts_places(words):
                statuses[" ".join(words[1:])] = words[0]
        elif line.endswith(_WORDS) and len(words := line.split()) > 1:
            statuses[" ".join(words[:-1])] = words[-1]
    return statuses


def _seaborn(text: str) -> StatusMap:
    statuses: StatusMap = {}
    for line in text.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            statuses[words[1]] = "FAILED"
        elif words[1] == "PASSED" and " PASSED " in line:
            statuses[words[0]] = "PASSED"
        elif line.startswith("PASSED") and " PASSED " not in line:
            statuses[words[1]] = "PASSED"
    return statuses


def _sympy(text: str) -> StatusMap:
    statuses: StatusMap = {}
    for line in text.split("\n"):
        first, last = line.find(" "), line.rfind(" ")
        colon = line.rfind(".py:", first + 1, max(last, 0))
        if first >= 0 and colon >= 0:
            statuses[line[first + 1 : last]] = "FAILED"
    endings = {" E": "ERROR", " F": "FAILED", " ok": "PASSED"}
    for line in (line.strip() for line in text.split("\n")):
        if line.startswith("test_"):
            statuses.update({line.split()[0]: status for end, status in endings.items() if line.endswith(end)})
    return statuses


_DJANGO_TAILS = (
    (" ... ok", "PASSED"),
    (" ... OK", "PASSED"),
    (" ...  OK", "PASSED"),
    (" ... FAIL", "FAILED"),
    (" ... ERROR", "ERROR"),
)
# Texts of Django's own that stand between a test and its `ok`.
_DJANGO_INTERRUPTED = re.compile(
    r"^(.*?)\s\.\.\.\s(?:Testing against Django installed in [^\0]{0,4000}? silenced\)\.|Internal Server Error: /.*/"
    r"|System check identified no issues \(0 silenced\))\nok$",
    re.MULTILINE,
)
_DJANGO_VERSION_TEST = "--version is equivalent to version"
_DJANGO_GLUED = "Applying sites.0002_alter_domain_unique...test_no_migrations"


def _django(text: str) -> StatusMap:
    statuses: StatusMap = {}
    announced = None
    for line in (line.strip() for line in text.split("\n")):
        if _DJANGO_VERSION_TEST in line:
            statuses[_DJANGO_VERSION_TEST] = "PASSED"
        if " ... " in line:
            announced = line.split(" ... ")[0]
        for tail, status in _DJANGO_TAILS:
            if line.endswith(tail):
                whole = line.split("...", 1)[1].strip() if line.startswith(_DJANGO_GLUED) else line
                statuses[whole.removesuffix(tail) if status == "PASSED" else whole.split(tail)[0]] = status
        if " ... skipped" in line:
            statuses[line.split(" ... skipped")[0]] = "SKIPPED"
        for heading, status in (("FAIL:", "FAILED"), ("ERROR:", "ERROR")):
            if line.startswith(heading) and len(line.split()) > 1:
                statuses[line.split()[1]] = status
        if line.startswith("ok") and announced is not None:
            statuses[announced] = "PASSED"
    statuses.update({match[1]: "PASSED" for match in _DJANGO_INTERRUPTED.finditer(text)})
    return statuses


_READERS: Mapping[str, Callable[[str], StatusMap]] = {
    "parse_log_pytest": _pytest,
    "parse_log_pytest_options": _pytest_options,
    "parse_log_pytest_v2": _pytest_v2,
    "parse_log_matplotlib": _matplotlib,
    "parse_log_seaborn": _seaborn,
    "parse_log_sympy": _sympy,
    "parse_log_django": _django,
}
