import unittest

from wrapkit import breite, teile


class BreiteTest(unittest.TestCase):
    def test_ascii(self):
        self.assertEqual(breite("abc"), 3)

    def test_umlaute(self):
        self.assertEqual(breite("äöüß"), 4)

    def test_weite_zeichen(self):
        self.assertEqual(breite("東京 ｱ"), 6)

    def test_steuerzeichen(self):
        self.assertEqual(breite("a\u200bb\x07"), 2)

    def test_teile(self):
        self.assertEqual(teile("東京タワー", 5), ("東京", "タワー"))
        self.assertEqual(teile("ab", 5), ("ab", ""))

    def test_teile_gibt_immer_etwas(self):
        self.assertEqual(teile("東京", 1), ("東", "京"))


if __name__ == "__main__":
    unittest.main()
