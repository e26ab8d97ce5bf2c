import unittest

from globetrot import Pattern, PatternError


class PatternTest(unittest.TestCase):
    def check(self, pattern, yes=(), no=()):
        compiled = Pattern(pattern)
        for path in yes:
            self.assertTrue(compiled.matches(path), "%s should match %s" % (pattern, path))
        for path in no:
            self.assertFalse(compiled.matches(path), "%s should not match %s" % (pattern, path))

    def test_star(self):
        self.check("/src/*.py", ["src/a.py", "src/.py"], ["src/a/b.py", "lib/src/a.py", "src/a.pyc"])

    def test_any_depth_without_slash(self):
        self.check("*.log", ["a.log", "x/y/a.log"], ["a.log2"])

    def test_question_mark(self):
        self.check("/a?c", ["abc"], ["ac", "a/c", "abbc"])

    def test_sets(self):
        self.check("v[0-9]", ["v1", "x/v9"], ["v", "va", "v10"])
        self.check("/a[!b-d]e", ["aae"], ["abe", "a/e"])
        self.check("x[]]", ["x]"], ["x["])

    def test_directory(self):
        self.check("out/", ["out/a", "x/out/a/b"], ["out", "a/out", "out2/a"])

    def test_below_a_match(self):
        self.check("node_modules", ["node_modules", "a/node_modules/b/c.js"], ["node_modules2"])

    def test_double_star_between(self):
        self.check("docs/**/*.md", ["docs/a/b.md", "docs/a/b/c.md"], ["xdocs/a/b.md", "docs/a.txt"])

    def test_backslash(self):
        self.check(r"/a\*", ["a*"], ["ab"])

    def test_errors(self):
        for text, position in (("", 0), ("a/[b", 2), ("a\\", 1)):
            with self.assertRaises(PatternError) as caught:
                Pattern(text)
            self.assertEqual(caught.exception.position, position)


if __name__ == "__main__":
    unittest.main()
