"""Versions that can be compared."""

import functools
import re


@functools.total_ordering
class Version:
    """Numbers with dots; 1.0 equals 1, and 1.10 is after 1.9."""

    def __init__(self, text):
        if not re.fullmatch(r"\d+(\.\d+)*", text):
            raise ValueError("not a version: %r" % text)
        self.text = text
        numbers = [int(number) for number in text.split(".")]
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers.pop()
        self.numbers = tuple(numbers)

    def __eq__(self, other):
        return isinstance(other, Version) and self.numbers == other.numbers

    def __lt__(self, other):
        return self.numbers < other.numbers

    def __hash__(self):
        return hash(self.numbers)

    def __str__(self):
        return self.text
