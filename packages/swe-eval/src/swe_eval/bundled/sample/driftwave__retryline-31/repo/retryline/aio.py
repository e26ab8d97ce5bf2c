"""The loop around a coroutine function."""

import asyncio
import functools

from .outcome import Attempt, GaveUp


def retry_coroutine(function, errors, backoff, attempts, on_retry, on_give_up, sleep):
    """`function` repeated as `retry` says. A cancelled task is never repeated."""
    sleep = sleep or asyncio.sleep
    pauses = backoff.pauses()

    @functools.wraps(function)
    async def call(*args, **kwargs):
        for number in range(1, attempts + 1):
            try:
                return await function(*args, **kwargs)
            except asyncio.CancelledError:
                raise
            except errors as error:
                if number == attempts:
                    if on_give_up:
                        on_give_up(GaveUp(number, error))
                    raise
                pause = next(pauses)
                if on_retry:
                    on_retry(Attempt(number, error, pause))
                await sleep(pause)

    return call
