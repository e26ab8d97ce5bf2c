import unittest

import confetti


class ReaderTest(unittest.TestCase):
    def test_sections_and_values(self):
        config = confetti.loads("[a]\nx = 1\n[b]\ny=2\n")
        self.assertEqual(config.sections(), ["a", "b"])
        self.assertEqual(config["b"]["y"], "2")

    def test_comments_and_blank_lines(self):
        config = confetti.loads("# top\n\n[a]\n; other\nx = 1 # kept\n")
        self.assertEqual(config["a"]["x"], "1 # kept")

    def test_continuation(self):
        config = confetti.loads("[a]\nx = one \\\n    two\n")
        self.assertEqual(config["a"]["x"], "one two")

    def test_quotes_keep_blanks(self):
        config = confetti.loads('[a]\nx = "  b "\n')
        self.assertEqual(config["a"]["x"], "  b ")

    def test_key_before_section(self):
        with self.assertRaises(confetti.ParseError) as caught:
            confetti.loads("\nx = 1\n")
        self.assertEqual(caught.exception.line_number, 2)

    def test_malformed_header(self):
        with self.assertRaises(confetti.ParseError):
            confetti.loads("[a\nx = 1\n")

    def test_round_trip(self):
        text = '[defaults]\nroot = /srv\n\n[a]\nx = " b"\ny = ${root}/y\n'
        self.assertEqual(confetti.dumps(confetti.loads(text)), text)


if __name__ == "__main__":
    unittest.main()
