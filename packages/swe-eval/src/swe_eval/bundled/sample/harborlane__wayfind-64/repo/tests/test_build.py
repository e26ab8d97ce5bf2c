import unittest

from wayfind import BuildError, Router


class BuildTest(unittest.TestCase):
    def setUp(self):
        self.router = Router()
        self.router.add("/users", "users")
        self.router.add("/users/<int:id>", "users")
        self.router.add("/wiki/<title>", "page")
        self.router.add("/files/<path:name>", "file")

    def test_variable(self):
        self.assertEqual(self.router.build("page", title="Main"), "/wiki/Main")

    def test_most_specific_rule(self):
        self.assertEqual(self.router.build("users", id=7), "/users/7")
        self.assertEqual(self.router.build("users"), "/users")

    def test_query(self):
        self.assertEqual(self.router.build("page", title="Main", tag=["a", "b c"]), "/wiki/Main?tag=a&tag=b+c")

    def test_path_keeps_its_slashes(self):
        self.assertEqual(self.router.build("file", name="a/b.txt"), "/files/a/b.txt")

    def test_missing_value(self):
        with self.assertRaisesRegex(BuildError, "needs title"):
            self.router.build("page")

    def test_refused_value(self):
        self.assertRaises(BuildError, self.router.build, "page", title="")
        self.assertEqual(self.router.build("users", id=-1), "/users?id=-1")


if __name__ == "__main__":
    unittest.main()
