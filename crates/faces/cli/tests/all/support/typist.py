#!/usr/bin/env python3
"""Runs a program at a terminal and types: typist.py KEYS.json PROGRAM ARGS…

KEYS is a list of [text to wait for, keys to type]. Prints what the screen got; fails if a text does not come, the
program does not end, or the terminal is not what it was before."""
import json
import os
import pty
import select
import sys
import termios
import time

keys = json.loads(sys.argv[1])
looked, look = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    # Not before it is known how the terminal is.
    os.read(looked, 1)
    os.close(looked)
    os.close(look)
    os.execvp(sys.argv[2], sys.argv[2:])
before, shown, seen, deadline = termios.tcgetattr(terminal)[3], "", 0, time.monotonic() + 60
os.write(look, b"x")
while True:
    if keys and keys[0][0] in shown[seen:]:
        seen = shown.index(keys[0][0], seen) + len(keys[0][0])
        os.write(terminal, keys.pop(0)[1].encode())
    ready, _, _ = select.select([terminal], [], [], 0.1)
    try:
        data = os.read(terminal, 65536) if ready else None
    except OSError:
        break
    if data == b"":
        break
    shown += (data or b"").decode(errors="replace")
    if deadline < time.monotonic():
        sys.stdout.write(shown)
        sys.exit("not seen: %r" % keys)
    try:
        modes = termios.tcgetattr(terminal)[3]
    except termios.error:
        pass
sys.stdout.write(shown)
_, status = os.waitpid(pid, 0)
if keys or modes & (termios.ICANON | termios.ECHO) != before & (termios.ICANON | termios.ECHO):
    sys.exit("left over: %r, terminal %x, not %x" % (keys, modes, before))
sys.exit(os.waitstatus_to_exitcode(status))
