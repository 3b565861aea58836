"""What a supervisor can know of the processes it started."""

from __future__ import annotations

import os

from allranks.local.host.process import is_child


def test_a_child_is_one_until_its_status_is_taken() -> None:
    """A child that has ended counts until somebody has collected it, and never after."""
    reader, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    assert is_child(pid)
    os.close(telling)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert is_child(pid)
    os.waitpid(pid, 0)
    assert not is_child(pid)
