import unittest

from metrica import Unit, UnitError, parse_unit


class ParserTest(unittest.TestCase):
    def test_names_and_prefixes(self):
        self.assertEqual(parse_unit("km"), Unit(1000, m=1))
        self.assertEqual(parse_unit("kg"), Unit(kg=1))

    def test_full_name_wins_over_prefix(self):
        self.assertEqual(parse_unit("min"), Unit(60, s=1))

    def test_quotient(self):
        self.assertEqual(parse_unit("m/s"), Unit(m=1, s=-1))

    def test_product(self):
        self.assertEqual(parse_unit("N*m"), parse_unit("N m"))
        self.assertEqual(parse_unit("N m"), parse_unit("J"))

    def test_powers(self):
        self.assertEqual(parse_unit("m^2 s^-2"), Unit(m=2, s=-2))
        self.assertEqual(parse_unit("km**2"), Unit(10**6, m=2))

    def test_parentheses(self):
        self.assertEqual(parse_unit("J/(kg*K)"), Unit(m=2, s=-2, K=-1))

    def test_one(self):
        self.assertEqual(parse_unit("1/s"), parse_unit("Hz"))

    def test_errors(self):
        for text, position in (("", 0), ("m/", 2), ("m^", 2), ("(m", 2), ("m)", 1), ("m/foo", 2), ("2 m", 0), ("m%", 1)):
            with self.assertRaisesRegex(UnitError, " at %d in " % position):
                parse_unit(text)


if __name__ == "__main__":
    unittest.main()
