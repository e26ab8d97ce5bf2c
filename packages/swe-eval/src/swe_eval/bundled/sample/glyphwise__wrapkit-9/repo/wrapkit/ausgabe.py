"""Fitting one line into a given width."""

from .breite import breite, teile

AUSLASSUNG = "…"


def kürzen(text, spalten):
    """`text` if it fits into `spalten` cells, else its beginning and an ellipsis."""
    if breite(text) <= spalten:
        return text
    if spalten <= breite(AUSLASSUNG):
        return AUSLASSUNG[:spalten]
    kopf, _ = teile(text, spalten - breite(AUSLASSUNG))
    return kopf.rstrip() + AUSLASSUNG


def füllen(text, spalten, rand="l"):
    """`text` with blanks up to `spalten` cells; it stands at the left, right or in the middle ("l", "r", "m")."""
    frei = max(0, spalten - breite(text))
    if rand == "l":
        return text + " " * frei
    if rand == "r":
        return " " * frei + text
    if rand == "m":
        return " " * (frei // 2) + text + " " * (frei - frei // 2)
    raise ValueError("rand must be 'l', 'r' or 'm', not %r" % rand)
