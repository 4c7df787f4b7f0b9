#!/usr/bin/env python3
"""Runs a program at a terminal and types: typist.py KEYS.json PROGRAM ARGS…

KEYS is a list of [text to wait for, keys to type]. A third entry of {"size": [columns, rows]} changes the size of the
screen first, {"signal": "CONT"} sends a signal to the program. Prints what the screen got; fails if a text does not
come, the program does not end, or the terminal is not what it was before."""
import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

keys = json.loads(sys.argv[1])
looked, look = os.pipe()
called, call = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    os.write(call, os.ttyname(0).encode())
    # Not before it is known how the terminal is.
    os.read(looked, 1)
    os.close(looked)
    os.close(look)
    os.execvp(sys.argv[2], sys.argv[2:])
# Held open, so that the terminal is still there when the program has ended: only then are its modes the last ones.
held = os.open(os.read(called, 256).decode(), os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(held, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before, shown, seen, deadline = termios.tcgetattr(held)[3], "", 0, time.monotonic() + 60
os.write(look, b"x")
status, decoder = None, codecs.getincrementaldecoder("utf-8")(errors="replace")
while True:
    if keys and keys[0][0] in shown[seen:]:
        seen = shown.index(keys[0][0], seen) + len(keys[0][0])
        for act in keys[0][2:]:
            if "size" in act:
                columns, rows = act["size"]
                fcntl.ioctl(held, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            if "signal" in act:
                os.kill(pid, getattr(signal, "SIG" + act["signal"]))
        os.write(terminal, keys.pop(0)[1].encode())
        continue
    ready, _, _ = select.select([terminal], [], [], 0.02)
    data = os.read(terminal, 65536) if ready else b""
    shown += decoder.decode(data)
    if status is not None and not data:
        break
    if status is None:
        ended, how = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended == pid and os.WIFSTOPPED(how):
            # A shell would be back: say so, for keys that wait for it.
            shown += "<stopped>"
        elif ended == pid:
            status = how
    if deadline < time.monotonic():
        sys.stdout.write(shown)
        sys.exit("not seen: %r" % keys)
modes = termios.tcgetattr(held)[3]
sys.stdout.write(shown)
if keys or modes & (termios.ICANON | termios.ECHO) != before & (termios.ICANON | termios.ECHO):
    sys.exit("left over: %r, terminal %x, not %x" % (keys, modes, before))
sys.exit(os.waitstatus_to_exitcode(status))
