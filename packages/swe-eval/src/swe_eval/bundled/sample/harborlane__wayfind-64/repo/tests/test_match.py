import unittest
import uuid

from wayfind import NotFound, Router, RuleError


class MatchTest(unittest.TestCase):
    def setUp(self):
        self.router = Router()
        self.router.add("/", "index")
        self.router.add("/users/<int:id>", "user")
        self.router.add("/users/me", "me")
        self.router.add("/wiki/<title>", "page")
        self.router.add("/files/<path:name>", "file")
        self.router.add("/jobs/<uuid:job>/log", "log")

    def test_fixed(self):
        self.assertEqual(self.router.match("/"), ("index", {}))

    def test_fixed_before_variable(self):
        self.router.add("/users/<name>", "named")
        self.assertEqual(self.router.match("/users/me").endpoint, "me")
        self.assertEqual(self.router.match("/users/you"), ("named", {"name": "you"}))

    def test_int(self):
        self.assertEqual(self.router.match("/users/007"), ("user", {"id": 7}))

    def test_string_has_no_slash(self):
        self.assertRaises(NotFound, self.router.match, "/wiki/a/b")

    def test_path_has_slashes(self):
        self.assertEqual(self.router.match("/files/a/b.txt").values, {"name": "a/b.txt"})

    def test_uuid(self):
        job = uuid.UUID(int=5)
        self.assertEqual(self.router.match("/jobs/%s/log" % job).values, {"job": job})

    def test_bad_rules(self):
        for pattern in ("users", "/<nope:x>", "/<x>/<x>", "/<x"):
            self.assertRaises(RuleError, self.router.add, pattern, "x")


if __name__ == "__main__":
    unittest.main()
