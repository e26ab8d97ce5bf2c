import unittest

from tabulon import read_table, render


def plain(text):
    return render(*read_table(text)).splitlines()


class RenderTest(unittest.TestCase):
    def test_numbers_to_the_right(self):
        self.assertEqual(plain("item,n\nTea,1\nEspresso,12\n")[2:], ["Tea        1", "Espresso  12"])

    def test_text_to_the_left(self):
        self.assertEqual(plain("a,b\nx,y\nlong,z\n")[2:], ["x     y", "long  z"])

    def test_one_text_among_numbers(self):
        self.assertEqual(plain("n\n1\n100\ntwo\n")[2:], ["1", "100", "two"])

    def test_negative_and_percent(self):
        self.assertEqual(plain("rate\n-1.5%\n10%\n")[2:], ["-1.5%", "  10%"])

    def test_no_rows(self):
        self.assertEqual(plain("ab,c\n"), ["ab  c", "--  -"])

    def test_markdown(self):
        text = render(["item", "n"], [["a|b", "7"]], "markdown")
        self.assertEqual(text.splitlines(), ["| item | n |", "| ---- | : |", "| a\\|b  | 7 |"])

    def test_unknown_format(self):
        with self.assertRaisesRegex(ValueError, "markdown, plain"):
            render(["a"], [], "html")


if __name__ == "__main__":
    unittest.main()
