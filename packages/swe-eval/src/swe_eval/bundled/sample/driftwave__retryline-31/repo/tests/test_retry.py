import asyncio
import unittest

from retryline import Backoff, retry


class Flaky:
    """Fails `failures` times, then returns its argument."""

    def __init__(self, failures, error=ConnectionError):
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self, value):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error("call %d" % self.calls)
        return value


class RetryTest(unittest.TestCase):
    def setUp(self):
        self.slept = []

    def wrap(self, flaky, **options):
        @retry(ConnectionError, sleep=self.slept.append, **options)
        def function(value):
            """A docstring."""
            return flaky(value)

        return function

    def test_success_does_not_sleep(self):
        self.assertEqual(self.wrap(Flaky(0))("x"), "x")
        self.assertEqual(self.slept, [])

    def test_pauses(self):
        self.assertEqual(self.wrap(Flaky(3), attempts=4, backoff=Backoff(1, 2))("x"), "x")
        self.assertEqual(self.slept, [1, 2, 4])

    def test_last_error_comes_through(self):
        with self.assertRaisesRegex(ConnectionError, "call 2"):
            self.wrap(Flaky(9), attempts=2)("x")

    def test_other_errors_are_not_repeated(self):
        flaky = Flaky(1, KeyError)
        with self.assertRaises(KeyError):
            self.wrap(flaky)("x")
        self.assertEqual(flaky.calls, 1)

    def test_hooks(self):
        seen = []
        with self.assertRaises(ConnectionError):
            self.wrap(Flaky(9), attempts=2, on_retry=seen.append, on_give_up=seen.append)("x")
        self.assertEqual([(type(x).__name__) for x in seen], ["Attempt", "GaveUp"])
        self.assertEqual((seen[0].number, seen[0].pause, seen[1].attempts), (1, 1.0, 2))

    def test_wrapped_name(self):
        function = self.wrap(Flaky(0))
        self.assertEqual((function.__name__, function.__doc__), ("function", "A docstring."))


class RetryCoroutineTest(unittest.TestCase):
    def setUp(self):
        self.slept = []

    def wrap(self, flaky, **options):
        async def sleep(pause):
            self.slept.append(pause)

        @retry(ConnectionError, sleep=sleep, **options)
        async def function(value):
            return flaky(value)

        return function

    def test_pauses(self):
        function = self.wrap(Flaky(2), backoff=Backoff(1, 2))
        self.assertEqual(asyncio.run(function("x")), "x")
        self.assertEqual(self.slept, [1, 2])

    def test_last_error_comes_through(self):
        with self.assertRaises(ConnectionError):
            asyncio.run(self.wrap(Flaky(9))("x"))


if __name__ == "__main__":
    unittest.main()
