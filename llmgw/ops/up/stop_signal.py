"""SIGINT, SIGTERM and SIGHUP as a readable file descriptor, so that every wait of `up` ends when one arrives.

A handler that raised would strike anywhere, also between starting a child and noting it. Here a signal only makes a
pipe readable; what is being done looks at it where stopping is safe.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signal() -> Iterator[int]:
    """Yield a descriptor that becomes readable at the first signal; a second one changes nothing."""
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    try:
        yield read_fd
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_fd)
        os.close(write_fd)
