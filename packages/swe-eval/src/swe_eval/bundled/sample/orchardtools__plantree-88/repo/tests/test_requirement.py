import unittest

from plantree import Requirement, Version


class RequirementTest(unittest.TestCase):
    def test_versions(self):
        self.assertLess(Version("1.9"), Version("1.10"))
        self.assertEqual(Version("1.0"), Version("1"))
        self.assertRaises(ValueError, Version, "1.x")

    def test_clauses(self):
        requirement = Requirement("sockets >= 2, < 3")
        self.assertEqual(requirement.name, "sockets")
        self.assertTrue(requirement.fits(Version("2.9")))
        self.assertFalse(requirement.fits(Version("3.0")))

    def test_plain_name(self):
        self.assertTrue(Requirement("a-b.c").fits(Version("0")))

    def test_malformed(self):
        for text in ("", ">=1", "a~1", "a>="):
            self.assertRaises(ValueError, Requirement, text)


if __name__ == "__main__":
    unittest.main()
