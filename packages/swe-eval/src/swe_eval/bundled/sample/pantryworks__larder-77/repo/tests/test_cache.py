import unittest

from larder import Cache
from tests.clock import Clock


class CacheTest(unittest.TestCase):
    def test_get_and_set(self):
        cache = Cache()
        cache["a"] = 1
        self.assertEqual(cache["a"], 1)
        self.assertNotIn("b", cache)
        self.assertEqual(cache.get("b", 2), 2)

    def test_oldest_leaves(self):
        cache = Cache(maxsize=2)
        cache["a"], cache["b"], cache["c"] = 1, 2, 3
        self.assertEqual(list(cache), ["b", "c"])

    def test_reading_is_use(self):
        cache = Cache(maxsize=2)
        cache["a"], cache["b"] = 1, 2
        cache["a"]
        cache["c"] = 3
        self.assertEqual(list(cache), ["a", "c"])

    def test_expiry(self):
        clock = Clock()
        cache = Cache(ttl=10, timer=clock)
        cache["a"] = 1
        clock.forward(9.5)
        self.assertEqual(cache["a"], 1)
        clock.forward(0.5)
        with self.assertRaises(KeyError):
            cache["a"]
        self.assertEqual(cache.stats.expirations, 1)

    def test_len_counts_fresh_entries(self):
        clock = Clock()
        cache = Cache(ttl=10, timer=clock)
        cache["a"] = 1
        clock.forward(10)
        cache["b"] = 2
        self.assertEqual((len(cache), list(cache)), (1, ["b"]))

    def test_purge(self):
        clock = Clock()
        cache = Cache(ttl=10, timer=clock)
        cache["a"] = cache["b"] = 1
        clock.forward(10)
        cache["c"] = 1
        self.assertEqual(cache.purge(), 2)
        self.assertEqual(cache.purge(), 0)

    def test_stats(self):
        cache = Cache(maxsize=1)
        cache["a"] = 1
        cache["b"] = 1
        cache.get("a")
        cache.get("b")
        self.assertEqual(cache.stats.as_dict(), {"hits": 1, "misses": 1, "evictions": 1, "expirations": 0})
        self.assertEqual(cache.stats.hit_rate, 0.5)

    def test_bad_arguments(self):
        self.assertRaises(ValueError, Cache, maxsize=0)
        self.assertRaises(ValueError, Cache, ttl=0)


if __name__ == "__main__":
    unittest.main()
