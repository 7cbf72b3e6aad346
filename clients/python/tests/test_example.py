"""The example on the client, as a process."""

from __future__ import annotations

import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import threading
import unittest
from typing import IO, Any, List

import grpc

from .fake import PATIENCE, Case, Fake, FakeCallbacks

PROJECT = pathlib.Path(__file__).parent.parent
SHIM = PROJECT.parent.parent / "examples" / "python" / "shim.py"


class Lines:
    """The lines that a process prints."""

    def __init__(self, output: IO[str]) -> None:
        self.lines: "queue.SimpleQueue[str]" = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.read, args=(output,), daemon=True)
        self.thread.start()

    def read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.put(line)

    def next(self) -> str:
        return self.lines.get(timeout=PATIENCE)

    def until(self, saw: str) -> Any:
        """Returns the next observation of a kind."""
        while True:
            observation = json.loads(self.next())
            if observation["saw"] == saw:
                return observation


@unittest.skipUnless(SHIM.exists(), "the example is not beside this package")
class Example(Case):
    def start(self, *addresses: str) -> "subprocess.Popen[str]":
        options = [option for address in addresses for option in ("--address", address)]
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [sys.executable, str(SHIM), "--pause", "0.05", *options],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.output, self.errors = Lines(process.stdout), Lines(process.stderr)
        self.addCleanup(self.errors.thread.join, PATIENCE)
        self.addCleanup(self.output.thread.join, PATIENCE)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process

    def dead(self) -> str:
        """Returns an address at which nothing listens."""
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"

    def test_it_registers_at_the_address_that_answers(self) -> None:
        fake, dead = Fake(), self.dead()
        address = self.serve(fake, FakeCallbacks())
        process = self.start(dead, address)
        why = self.errors.next()
        self.assertIn(f"not connected (address {dead}, {address}): ", why)
        self.assertIn("UNAVAILABLE", why)
        self.assertEqual(self.output.until("lost")["reason"], "UNAVAILABLE")
        self.assertEqual(self.output.until("registered")["session"], 1)
        self.output.until("node")
        process.send_signal(signal.SIGTERM)
        self.output.until("left")
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_it_says_why_it_is_not_connected(self) -> None:
        dead = self.dead()
        process = self.start(dead)
        lines: List[str] = [self.errors.next() for _ in range(2)]
        for line in lines:
            self.assertIn(f"not connected (address {dead}): register: UNAVAILABLE: ", line)
        self.assertIsNone(process.poll(), "it tries again")

    def test_it_ends_with_the_reason_why_it_is_refused(self) -> None:
        fake = Fake()
        fake.refuses = (grpc.StatusCode.PERMISSION_DENIED, "RM_DENIED")
        process = self.start(self.serve(fake, FakeCallbacks()))
        self.assertIn("the text of RM_DENIED [RM_DENIED]", self.errors.next())
        self.assertEqual(self.output.until("lost")["reason"], "RM_DENIED")
        self.assertEqual(process.wait(PATIENCE), 1)
