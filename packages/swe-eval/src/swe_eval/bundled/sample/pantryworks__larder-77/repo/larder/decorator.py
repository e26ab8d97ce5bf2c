"""@cached for functions."""

import functools
import time

from .cache import Cache


def make_key(args, kwargs):
    """A hashable key for a call; 1 and 1.0 and True are one key, as for a dict."""
    return args, tuple(sorted(kwargs.items()))


def cached(maxsize=128, ttl=None, timer=time.monotonic):
    """Remember what a function returned. `function.cache` is the Cache."""

    def decorate(function):
        cache = Cache(maxsize, ttl, timer)

        @functools.wraps(function)
        def call(*args, **kwargs):
            key = make_key(args, kwargs)
            try:
                return cache[key]
            except KeyError:
                pass
            result = function(*args, **kwargs)
            cache[key] = result
            return result

        call.cache = cache
        return call

    return decorate
