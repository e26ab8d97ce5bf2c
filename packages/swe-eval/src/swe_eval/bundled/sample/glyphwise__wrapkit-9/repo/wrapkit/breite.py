"""How many terminal cells a text takes."""

import unicodedata

WEIT = ("W", "F")  # East Asian wide and fullwidth


def zeichenbreite(zeichen):
    """Cells of one code point: 0 for control characters, 2 for wide ones, else 1."""
    if unicodedata.category(zeichen) in ("Cc", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(zeichen) in WEIT else 1


def breite(text):
    """Cells of a text without line breaks."""
    return sum(zeichenbreite(zeichen) for zeichen in text)


def teile(text, spalten):
    """(head, rest): the longest head that fits into `spalten` cells.

    The head has at least one character, so that a loop over the rest ends.
    """
    gesamt = 0
    for stelle, zeichen in enumerate(text):
        gesamt += zeichenbreite(zeichen)
        if gesamt > spalten:
            stelle = max(stelle, 1)
            return text[:stelle], text[stelle:]
    return text, ""
