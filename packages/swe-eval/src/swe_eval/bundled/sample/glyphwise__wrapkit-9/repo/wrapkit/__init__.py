"""Zeilenumbruch nach Zellen statt nach Zeichen."""

from .ausgabe import füllen, kürzen
from .breite import breite, teile
from .umbruch import umbrechen

__version__ = "0.4.1"
__all__ = ["breite", "füllen", "kürzen", "teile", "umbrechen"]
