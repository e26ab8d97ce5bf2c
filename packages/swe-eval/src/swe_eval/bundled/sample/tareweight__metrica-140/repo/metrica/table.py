"""The units that have names."""

from fractions import Fraction

from .unit import BASE, Unit

PREFIXES = {
    "G": Fraction(10**9),
    "M": Fraction(10**6),
    "k": Fraction(1000),
    "c": Fraction(1, 100),
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}

UNITS = {name: Unit(**{name: 1}) for name in BASE if name != "kg"}
UNITS.update(
    {
        "g": Unit(Fraction(1, 1000), kg=1),
        "min": Unit(60, s=1),
        "h": Unit(3600, s=1),
        "d": Unit(86400, s=1),
        "Hz": Unit(s=-1),
        "N": Unit(kg=1, m=1, s=-2),
        "Pa": Unit(kg=1, m=-1, s=-2),
        "J": Unit(kg=1, m=2, s=-2),
        "W": Unit(kg=1, m=2, s=-3),
        "C": Unit(A=1, s=1),
        "V": Unit(kg=1, m=2, s=-3, A=-1),
        "L": Unit(Fraction(1, 1000), m=3),
        "t": Unit(1000, kg=1),
        "bar": Unit(100000, kg=1, m=-1, s=-2),
        "in": Unit(Fraction(254, 10000), m=1),
        "ft": Unit(Fraction(3048, 10000), m=1),
        "mi": Unit(Fraction(1609344, 1000), m=1),
        "lb": Unit(Fraction(45359237, 10**8), kg=1),
    }
)


def lookup(name):
    """The unit of a name with or without a prefix, or None. A full name wins over a prefix: `min` is a minute."""
    if name in UNITS:
        return UNITS[name]
    if name[:1] in PREFIXES and name[1:] in UNITS:
        return Unit(PREFIXES[name[0]]) * UNITS[name[1:]]
    return None
