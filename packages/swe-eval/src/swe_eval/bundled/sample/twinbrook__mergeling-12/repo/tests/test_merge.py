import unittest

from mergeling import MergeConflict, merge

BASE = {"a": 1, "b": {"c": 2, "d": 3}}


class MergeTest(unittest.TestCase):
    def test_different_places(self):
        merged = merge(BASE, {"a": 5, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 6, "d": 3}})
        self.assertEqual(merged, {"a": 5, "b": {"c": 6, "d": 3}})

    def test_same_change(self):
        self.assertEqual(merge(BASE, {"a": 1}, {"a": 1}), {"a": 1})

    def test_conflict(self):
        with self.assertRaises(MergeConflict) as caught:
            merge(BASE, {"a": 2, "b": {"c": 2}}, {"a": 3, "b": {"c": 2, "d": 4}})
        self.assertEqual(caught.exception.paths, ["a", "b.d"])

    def test_change_in_what_the_other_side_removed(self):
        with self.assertRaises(MergeConflict) as caught:
            merge(BASE, {"a": 1}, {"a": 1, "b": {"c": 9, "d": 3}})
        self.assertEqual(caught.exception.paths, ["b"])


if __name__ == "__main__":
    unittest.main()
