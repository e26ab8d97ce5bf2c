import unittest

from larder import cached
from tests.clock import Clock


class CachedTest(unittest.TestCase):
    def setUp(self):
        self.calls = []
        self.clock = Clock()

        @cached(maxsize=2, ttl=5, timer=self.clock)
        def double(value, **options):
            self.calls.append(value)
            return value * 2

        self.double = double

    def test_second_call_is_remembered(self):
        self.assertEqual((self.double(2), self.double(2)), (4, 4))
        self.assertEqual(self.calls, [2])

    def test_keyword_order_does_not_matter(self):
        self.double(1, a=1, b=2)
        self.double(1, b=2, a=1)
        self.assertEqual(self.calls, [1])

    def test_expired_result_is_made_again(self):
        self.double(2)
        self.clock.forward(5)
        self.double(2)
        self.assertEqual(self.calls, [2, 2])

    def test_exceptions_are_not_kept(self):
        @cached()
        def fail():
            self.calls.append("fail")
            raise KeyError("inside")

        for _ in range(2):
            self.assertRaises(KeyError, fail)
        self.assertEqual(self.calls, ["fail", "fail"])


if __name__ == "__main__":
    unittest.main()
