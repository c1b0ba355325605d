"""Tasks that no question should come to, for tests of what happens when one does; a worker imports this when asked."""

import itertools
import os
from typing import Any

from tonnage.web.tasks import TASKS


def spin(*_: Any) -> None:
    """Never ends."""
    while True:
        pass


def compute(*_: Any) -> None:
    """Never ends, and looks at no signal meanwhile, as compiled loops."""
    sum(itertools.repeat(0))


def take_memory(*_: Any, **given: int) -> int:
    """Takes so many bytes, and touches them."""
    return len(b"x" * given["size"])


def die(*_: Any) -> None:
    """Takes the process along."""
    os._exit(7)


def fail(*_: Any) -> None:
    """A mistake of ours."""
    raise ZeroDivisionError("a mistake")


def name(*_: Any) -> int:
    """Which process this is."""
    print("written where nothing may be written")
    return os.getpid()


TASKS.update({task.__name__: task for task in (spin, compute, take_memory, die, fail, name)})
