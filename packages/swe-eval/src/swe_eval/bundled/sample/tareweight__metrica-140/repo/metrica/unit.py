"""A unit: a factor and powers of base units."""

from fractions import Fraction

BASE = ("m", "kg", "s", "A", "K", "mol", "cd")


class Unit:
    """`factor` times the product of the base units to the powers in `dimension` (a tuple in the order of BASE)."""

    __slots__ = ("dimension", "factor")

    def __init__(self, factor=1, **powers):
        self.factor = Fraction(factor)
        self.dimension = tuple(powers.get(name, 0) for name in BASE)

    @classmethod
    def _make(cls, factor, dimension):
        unit = cls(factor)
        unit.dimension = tuple(dimension)
        return unit

    def __mul__(self, other):
        return self._make(self.factor * other.factor, (a + b for a, b in zip(self.dimension, other.dimension)))

    def __truediv__(self, other):
        return self._make(self.factor / other.factor, (a - b for a, b in zip(self.dimension, other.dimension)))

    def __pow__(self, exponent):
        return self._make(self.factor**exponent, (a * exponent for a in self.dimension))

    def __eq__(self, other):
        return isinstance(other, Unit) and (self.factor, self.dimension) == (other.factor, other.dimension)

    def __hash__(self):
        return hash((self.factor, self.dimension))

    def __repr__(self):
        powers = ["%s^%d" % (name, power) for name, power in zip(BASE, self.dimension) if power]
        return "<Unit %s %s>" % (self.factor, " ".join(powers) or "1")
