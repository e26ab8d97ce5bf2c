import itertools
import random
import unittest

from retryline import Backoff


class BackoffTest(unittest.TestCase):
    def take(self, backoff, count):
        return list(itertools.islice(backoff.pauses(), count))

    def test_exponential(self):
        self.assertEqual(self.take(Backoff(0.5, 2), 4), [0.5, 1.0, 2.0, 4.0])

    def test_limit(self):
        self.assertEqual(self.take(Backoff(1, 3, limit=5), 4), [1, 3, 5, 5])

    def test_jitter_stays_in_its_range(self):
        for pause in self.take(Backoff(2, 1, jitter=0.25, rng=random.Random(4)), 200):
            self.assertTrue(1.5 <= pause <= 2.5, pause)

    def test_total(self):
        self.assertEqual(Backoff(1, 2, limit=3, jitter=0.5).total(5), 1 + 2 + 3 + 3)

    def test_bad_arguments(self):
        for arguments in ({"base": -1}, {"factor": 0.5}, {"jitter": 2}):
            with self.assertRaises(ValueError):
                Backoff(**arguments)


if __name__ == "__main__":
    unittest.main()
