import unittest

from tabulon import read_table


class ReaderTest(unittest.TestCase):
    def test_header_and_rows(self):
        self.assertEqual(read_table("a,b\r\n1,2\r\n"), (["a", "b"], [["1", "2"]]))

    def test_short_rows_are_filled(self):
        self.assertEqual(read_table("a,b\n1\n")[1], [["1", ""]])

    def test_long_rows_are_refused(self):
        with self.assertRaisesRegex(ValueError, "row 3"):
            read_table("a\n1\n2,3\n")

    def test_quoted_newline(self):
        self.assertEqual(read_table('a\n"x\ny"\n')[1], [["x\ny"]])

    def test_empty(self):
        with self.assertRaises(ValueError):
            read_table("\n")


if __name__ == "__main__":
    unittest.main()
