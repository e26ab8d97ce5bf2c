import unittest

import confetti

TEXT = """\
[defaults]
user = nobody

[paths]
root = /srv/app
cache = ${root}/cache

[worker]
pid = ${paths:root}/worker.pid
owner = ${user}
price = 5$$
"""


class InterpolationTest(unittest.TestCase):
    def setUp(self):
        self.config = confetti.loads(TEXT)

    def test_same_section(self):
        self.assertEqual(self.config["paths"]["cache"], "/srv/app/cache")

    def test_other_section(self):
        self.assertEqual(self.config["worker"]["pid"], "/srv/app/worker.pid")

    def test_defaults(self):
        self.assertEqual(self.config["worker"]["owner"], "nobody")

    def test_dollar(self):
        self.assertEqual(self.config["worker"]["price"], "5$")

    def test_raw(self):
        self.assertEqual(self.config.raw("paths", "cache"), "${root}/cache")

    def test_missing_reference(self):
        config = confetti.loads("[a]\nx = ${nope}\n")
        with self.assertRaisesRegex(confetti.InterpolationError, "a:x"):
            config["a"]["x"]

    def test_circle(self):
        config = confetti.loads("[a]\nx = ${y}\ny = ${x}\n")
        with self.assertRaises(confetti.InterpolationError):
            config["a"]["x"]

    def test_get_default(self):
        self.assertEqual(self.config.get("worker", "nope", "d"), "d")
        self.assertIsNone(self.config.get("nope", "nope"))


if __name__ == "__main__":
    unittest.main()
