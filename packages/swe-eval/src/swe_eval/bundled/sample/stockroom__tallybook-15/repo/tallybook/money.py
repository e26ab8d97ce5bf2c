"""Arithmetic with cents."""

from decimal import ROUND_HALF_EVEN, Decimal

CENT = Decimal("0.01")


def money(value):
    """A number or a text as a Decimal with two places."""
    if isinstance(value, float):
        raise TypeError("money is no float; give a text or a Decimal")
    return Decimal(value).quantize(CENT, rounding=ROUND_HALF_EVEN)


def split(total, weights):
    """`total` in parts that are to each other as the `weights`, each rounded to the cent.

    weights -- non-negative numbers, at least one of them positive
    """
    total = money(total)
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("weights must be non-negative and not all zero")
    return [money(total * Decimal(weight) / Decimal(whole)) for weight in weights]
