import unittest

from mergeling import Add, Change, PatchError, Remove, diff, from_json, patch, to_json

OLD = {"db": {"host": "a", "port": 1}, "debug": True, "tags": ["x"]}
NEW = {"db": {"host": "b", "port": 1}, "tags": ["x", "y"], "workers": 4}


class ChangesTest(unittest.TestCase):
    def test_diff(self):
        expected = [
            Change("db.host", "a", "b"),
            Remove("debug", True),
            Change("tags", ["x"], ["x", "y"]),
            Add("workers", 4),
        ]
        self.assertEqual(diff(OLD, NEW), expected)

    def test_patch(self):
        self.assertEqual(patch(OLD, diff(OLD, NEW)), NEW)

    def test_patch_leaves_its_argument_alone(self):
        patch(OLD, diff(OLD, NEW))
        self.assertEqual(OLD["db"]["host"], "a")

    def test_true_is_not_one(self):
        self.assertEqual(diff({"a": True}, {"a": 1}), [Change("a", True, 1)])

    def test_dict_becomes_value(self):
        for old, new in (({"a": {"b": 1}}, {"a": None}), ({"a": None}, {"a": {"b": 1}})):
            self.assertEqual(patch(old, diff(old, new)), new)

    def test_change_that_does_not_fit(self):
        for change in (Remove("a", 2), Add("a", 1), Change("b", 1, 2), Add("x.y", 1), Add("a.b", 1)):
            self.assertRaises(PatchError, patch, {"a": 1}, [change])

    def test_text(self):
        self.assertEqual([str(c) for c in diff(OLD, NEW)][:2], ["~ db.host: 'a' -> 'b'", "- debug: True"])

    def test_json(self):
        changes = diff(OLD, NEW)
        self.assertEqual(from_json(to_json(changes)), changes)
        self.assertEqual(to_json(changes).splitlines()[0], '["~", "db.host", "a", "b"]')

    def test_bad_json(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            from_json('["+", "a", 1]\n["?", "a", 1]\n')


if __name__ == "__main__":
    unittest.main()
