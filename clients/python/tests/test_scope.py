"""The end of calls and sessions."""

from __future__ import annotations

import signal
import threading
import time
import unittest
from typing import Any

from monoceros.scope import Scope

from .fake import PATIENCE


class Signals(unittest.TestCase):
    def test_a_signal_that_another_thread_receives_is_handled_during_a_wait(self) -> None:
        scope = Scope()

        def handle(*_: Any) -> None:
            scope.end()

        def receive() -> None:
            # The main thread waits by then.
            time.sleep(0.1)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, handle))
        thread = threading.Thread(target=receive)
        began = time.monotonic()
        thread.start()
        self.assertTrue(scope.wait(PATIENCE))
        self.assertLess(time.monotonic() - began, PATIENCE / 2)
        thread.join()
