import unittest

from globetrot import PatternList, select


class ListingTest(unittest.TestCase):
    def test_last_match_decides(self):
        patterns = PatternList("*.log\n!keep.log\n/old/keep.log\n")
        self.assertTrue(patterns.matches("a.log"))
        self.assertFalse(patterns.matches("x/keep.log"))
        self.assertTrue(patterns.matches("old/keep.log"))

    def test_comments_and_blank_lines(self):
        self.assertEqual(len(PatternList("# no\n\n  a  \n")), 1)

    def test_nothing_matches_an_empty_list(self):
        self.assertFalse(PatternList().matches("a"))

    def test_select(self):
        paths = ["a.py", "b.txt", "out/c.py", "x/d.py"]
        self.assertEqual(select(paths, "*.py", "out/"), ["a.py", "x/d.py"])
        self.assertEqual(select(paths), paths)


if __name__ == "__main__":
    unittest.main()
