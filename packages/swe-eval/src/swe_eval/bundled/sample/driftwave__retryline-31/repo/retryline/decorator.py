"""The decorator, and the loop around a plain function."""

import functools
import inspect
import time

from .aio import retry_coroutine
from .backoff import Backoff
from .outcome import Attempt, GaveUp


def retry(*errors, backoff=None, attempts=3, on_retry=None, on_give_up=None, sleep=None):
    """Repeat a call that raises one of `errors` (default: Exception), at most `attempts` calls in all.

    on_retry   -- called with an Attempt before each pause
    on_give_up -- called with a GaveUp before the last exception comes through
    sleep      -- what to pause with; a coroutine function for coroutines
    """
    if attempts < 1:
        raise ValueError("attempts must be 1 or more, not %r" % attempts)
    errors = errors or (Exception,)
    backoff = backoff or Backoff()

    def decorate(function):
        if inspect.iscoroutinefunction(function):
            return retry_coroutine(function, errors, backoff, attempts, on_retry, on_give_up, sleep)
        return _retry_function(function, errors, backoff, attempts, on_retry, on_give_up, sleep or time.sleep)

    return decorate


def _retry_function(function, errors, backoff, attempts, on_retry, on_give_up, sleep):
    pauses = backoff.pauses()

    @functools.wraps(function)
    def call(*args, **kwargs):
        for number in range(1, attempts + 1):
            try:
                return function(*args, **kwargs)
            except errors as error:
                if number == attempts:
                    if on_give_up:
                        on_give_up(GaveUp(number, error))
                    raise
                pause = next(pauses)
                if on_retry:
                    on_retry(Attempt(number, error, pause))
                sleep(pause)

    return call
