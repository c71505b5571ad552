"""When an interrupt may come: what was started must always be known to who has to end it.

Python raises an interrupt between any two steps, so also after a process was made and before it is recorded:
it would run on, and nobody would know of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _swap(handlers: dict[signal.Signals, Handler]) -> dict[signal.Signals, Handler]:
    """All or none: an interrupt in between would leave some of them as they are not meant to be."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        return {number: signal.signal(number, handler) for number, handler in handlers.items()}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _handled(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    """Signals go to the main thread: in another there is nothing to keep off."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in handlers}
    try:
        _swap(handlers)
        yield
    finally:
        _swap(before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """A termination or a closed terminal ends the work as an interrupt does: with everything cleaned up."""
    with _handled({signal.SIGTERM: _interrupt, signal.SIGHUP: _interrupt}):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Cleaning up is not to be interrupted by the second signal of the same key press."""
    with _handled(dict.fromkeys(SIGNALS, signal.SIG_IGN)):
        yield


@contextmanager
def in_one_piece() -> Iterator[None]:
    """What interrupts this is heard at its end. The signals are not blocked meanwhile: a process started
    here would inherit that, and never hear that it is to stop."""
    came: list[int] = []
    with _handled(dict.fromkeys(SIGNALS, lambda number, frame: came.append(number))):
        yield
    for number in came[:1]:
        signal.raise_signal(number)
