"""Waiting for something to become true, with a limit. The only place where tests let time pass."""

import time

POLL_S = 0.05


def wait_until(condition, limit_s, what, poll_s=POLL_S, ignoring=(OSError,)):
    """Calls `condition` until its result is true and returns that result.

    Exceptions in `ignoring` count as "not yet" (a daemon that does not listen yet). AssertionError after `limit_s`, with
    `what` and the last thing seen.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            last = condition()
            if last:
                return last
        except ignoring as error:
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {limit_s} s: {what} (last: {last!r})")
        time.sleep(poll_s)
