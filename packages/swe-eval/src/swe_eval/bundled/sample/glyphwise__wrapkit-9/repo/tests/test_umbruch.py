import os
import unittest

from wrapkit import füllen, kürzen, umbrechen

BEISPIEL = os.path.join(os.path.dirname(__file__), "beispiele", "brücke_東京.txt")


class UmbruchTest(unittest.TestCase):
    def test_wörter(self):
        self.assertEqual(umbrechen("Straßenbahn über die Brücke", 12), ["Straßenbahn", "über die", "Brücke"])

    def test_lange_wörter_werden_geteilt(self):
        self.assertEqual(umbrechen("abcdefgh ij", 3), ["abc", "def", "gh", "ij"])

    def test_beispiel(self):
        with open(BEISPIEL, encoding="utf-8") as datei:
            zeilen = umbrechen(datei.read(), 16)
        self.assertEqual(zeilen[:3], ["Die Straßenbahn", "fährt über die", "Brücke."])
        self.assertEqual(zeilen[3:], ["", "東京タワーは東京", "都港区芝公園にあ", "る。"])

    def test_zu_schmal(self):
        self.assertRaises(ValueError, umbrechen, "a", 1)

    def test_kürzen(self):
        self.assertEqual(kürzen("東京タワー", 7), "東京タ…")
        self.assertEqual(kürzen("kurz", 4), "kurz")

    def test_füllen(self):
        self.assertEqual([füllen("東", 4, rand) for rand in "lrm"], ["東  ", "  東", " 東 "])


if __name__ == "__main__":
    unittest.main()
