"""Breaking text into lines."""

from .breite import breite, teile


def _wörter(text, spalten):
    """The words of a text; those wider than a line are cut into pieces."""
    for wort in text.split():
        while breite(wort) > spalten:
            kopf, wort = teile(wort, spalten)
            yield kopf
        if wort:
            yield wort


def umbrechen(text, spalten):
    """The lines of `text`, each at most `spalten` cells wide; paragraphs (\\n\\n) stay apart by an empty line.

    Raises ValueError for less than two columns: a wide character would not fit.
    """
    if spalten < 2:
        raise ValueError("umbrechen needs 2 columns or more, not %r" % spalten)
    zeilen = []
    for absatz in text.split("\n\n"):
        if zeilen:
            zeilen.append("")
        zeile = ""
        for wort in _wörter(absatz, spalten):
            if not zeile:
                zeile = wort
            elif breite(zeile) + 1 + breite(wort) <= spalten:
                zeile += " " + wort
            else:
                zeilen.append(zeile)
                zeile = wort
        if zeile:
            zeilen.append(zeile)
    return zeilen
