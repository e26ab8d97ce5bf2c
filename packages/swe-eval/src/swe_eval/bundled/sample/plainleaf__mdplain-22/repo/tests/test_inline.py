import unittest

from mdplain.inline import plain


class InlineTest(unittest.TestCase):
    def test_emphasis(self):
        self.assertEqual(plain("a *b* **c d** _e_ snake_case_name"), "a b c d e snake_case_name")

    def test_code_is_left_alone(self):
        self.assertEqual(plain("use `*args` or ``a ` b``"), "use *args or a ` b")

    def test_links(self):
        self.assertEqual(plain("[x](http://y) [http://y](http://y)"), "x (http://y) http://y")

    def test_images(self):
        self.assertEqual(plain("![logo](a.png)"), "[logo]")

    def test_escapes(self):
        self.assertEqual(plain(r"\*not\* \[this\](x)"), "*not* [this](x)")


if __name__ == "__main__":
    unittest.main()
