"""The lines that say where in a log the output of the tests begins and ends.

The official ones are the same in every log, so a patch can print them. Ours carry a nonce that is new for each
evaluation. The official harness never sees ours: they do not contain its words.
"""

import re
from dataclasses import dataclass

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
_EXIT_CODE = re.compile(r"^>>>>> Test Exit Code:\s*(-?\d+)", re.MULTILINE)


def begin_line(nonce: str) -> str:
    """Stands alone on the line before the tests' output."""
    return f">>>>> swe-eval {nonce} tests begin"


def end_line(nonce: str) -> str:
    """Stands alone on the line after the tests' output."""
    return f">>>>> swe-eval {nonce} tests end"


def setup_failed_line(nonce: str) -> str:
    """Begins the line that says why the official test files could not be written."""
    return f">>>>> swe-eval {nonce} set-up failed:"


@dataclass(frozen=True)
class Output:
    """The part of a log that the tests wrote.

    Attributes:
        official: what lies between the official markers as the official harness takes them (the first ones), or
            between ours.
        widest: from the first begin to the last end; differs only where a marker stands more than once.
        forged: a marker stands more often, or in another order, than the script writes it.
        trusted: the markers are ours, so the forged ones among the output had no effect.
        exit_code: the test command's exit code, where the log records it behind its end marker.
    """

    official: str
    widest: str
    forged: bool = False
    trusted: bool = False
    exit_code: int | None = None


def test_output(text: str, nonce: str | None) -> Output:
    """Find the tests' output in a log; without markers it is the whole log."""
    return _between_nonces(text, nonce) if nonce else _between_official(text)


test_output.__test__ = False  # type: ignore[attr-defined]  # its name, not its purpose, looks like a test


def _between_nonces(text: str, nonce: str) -> Output:
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line == begin_line(nonce)]
    ends = [number for number, line in enumerate(lines) if line == end_line(nonce)]
    if not begins:
        return Output("", "", forged=bool(ends), trusted=not ends)
    # A time-out, or a script that stops at its first failure, leaves no end.
    inside = "\n".join(lines[begins[0] + 1 : ends[-1] if ends else len(lines)])
    repeated = len(begins) > 1 or len(ends) > 1 or (bool(ends) and ends[0] < begins[0])
    return Output(inside, inside, forged=repeated or START in inside or END in inside, trusted=not repeated)


def _between_official(text: str) -> Output:
    starts, ends = text.count(START), text.count(END)
    if not starts or not ends:
        return Output(text, text, forged=bool(starts or ends))
    after = text.split(START, 1)[1]
    official = after.split(START, 1)[0].split(END, 1)[0]
    widest, _, tail = after.rpartition(END) if END in after else (after, "", "")
    recorded = _EXIT_CODE.search(tail)
    return Output(
        official,
        widest,
        forged=starts > 1 or ends > 1 or END not in after,
        exit_code=int(recorded[1]) if recorded else None,
    )
