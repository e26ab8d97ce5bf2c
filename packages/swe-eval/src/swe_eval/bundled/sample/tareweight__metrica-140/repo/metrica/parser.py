"""Tokens -> Unit.

    product = power { ("*" | "/" | nothing) power }
    power   = atom [ "^" number ]
    atom    = name | "1" | "(" product ")"
"""

from .errors import UnitError
from .lexer import tokens
from .table import lookup
from .unit import Unit


class _Parser:
    def __init__(self, text):
        self.text = text
        self.tokens = tokens(text)
        self.index = 0

    @property
    def kind(self):
        return self.tokens[self.index].kind

    def take(self):
        token = self.tokens[self.index]
        self.index += 1
        return token

    def fail(self, expected):
        token = self.tokens[self.index]
        found = repr(token.text) if token.text else "the end"
        raise UnitError("expected %s at %d in %r, found %s" % (expected, token.position, self.text, found))

    def product(self):
        left = self.power()
        if self.kind == "*":
            self.take()
            return left * self.product()
        if self.kind == "/":
            self.take()
            return left / self.product()
        if self.kind in ("name", "("):
            return left * self.product()
        return left

    def power(self):
        unit = self.atom()
        if self.kind == "power":
            self.take()
            if self.kind != "number":
                self.fail("an exponent")
            unit = unit ** int(self.take().text)
        return unit

    def atom(self):
        if self.kind == "name":
            unit = lookup(self.tokens[self.index].text)
            if unit is None:
                self.fail("a unit")
            self.take()
            return unit
        if self.kind == "number" and self.tokens[self.index].text == "1":
            self.take()
            return Unit()
        if self.kind == "(":
            self.take()
            unit = self.product()
            if self.kind != ")":
                self.fail("')'")
            self.take()
            return unit
        return self.fail("a unit")


def parse_unit(text):
    """The Unit that a text stands for. Raises UnitError with the position of what is wrong."""
    parser = _Parser(text)
    unit = parser.product()
    if parser.kind != "end":
        parser.fail("the end")
    return unit
