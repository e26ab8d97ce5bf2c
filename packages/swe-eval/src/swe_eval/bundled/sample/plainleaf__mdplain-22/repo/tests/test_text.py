import unittest

from mdplain import parse, to_text


class TextTest(unittest.TestCase):
    def test_headings(self):
        self.assertEqual(to_text("# One\n## Two ##\n### Three"), "ONE\n===\n\nTwo\n---\n\nThree")

    def test_paragraph_is_joined(self):
        self.assertEqual(to_text("a\nb\n\nc"), "a b\n\nc")

    def test_lists(self):
        self.assertEqual(to_text("* a\n  + b\n1. c"), "- a\n  - b\n1. c")

    def test_quote(self):
        self.assertEqual(to_text("> a\n> b"), "| a b")

    def test_code(self):
        self.assertEqual(to_text("```py\nx = '*'\n\n  y\n```"), "    x = '*'\n\n      y")

    def test_width(self):
        self.assertEqual(to_text("- one two three", width=9), "- one two\n  three")

    def test_rule(self):
        self.assertEqual([block.kind for block in parse("a\n\n* * *\n\nb")], ["paragraph", "rule", "paragraph"])


if __name__ == "__main__":
    unittest.main()
