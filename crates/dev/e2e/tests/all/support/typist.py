#!/usr/bin/env python3
"""Runs a program at a terminal and types: typist.py KEYS.json PROGRAM ARGS…

KEYS is a list of [text to wait for, keys to type]; a list of texts is waited for in any order. A third entry of {"size": [columns, rows]} changes the size of the
screen first, {"signal": "CONT"} sends a signal to the program, {"wait": SECONDS} lets time pass before the keys, {"paste": PATH} types
what is in a file, as a terminal pastes it; {"deaf_until": PATH} reads nothing of what the program
writes from the keys on until there is such a file. Prints what the screen got; fails if a text does not
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
before, shown, seen, deadline = termios.tcgetattr(held), "", 0, time.monotonic() + 300
os.write(look, b"x")
status, decoder = None, codecs.getincrementaldecoder("utf-8")(errors="replace")
while True:
    awaited = [keys[0][0]] if keys and isinstance(keys[0][0], str) else keys[0][0] if keys else []
    if keys and all(text in shown[seen:] for text in awaited):
        seen = max(shown.index(text, seen) + len(text) for text in awaited)
        for act in keys[0][2:]:
            if "size" in act:
                columns, rows = act["size"]
                fcntl.ioctl(held, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            if "wait" in act:
                time.sleep(act["wait"])
            if "signal" in act:
                os.kill(pid, getattr(signal, "SIG" + act["signal"]))
        typed = keys.pop(0)
        for act in typed[2:]:
            if "paste" in act:
                text = open(act["paste"], "rb").read().replace(b"\n", b"\r")
                text, at = b"\x1b[200~" + text + b"\x1b[201~", 0
                while at < len(text):
                    # What the program draws meanwhile is read: terminals do.
                    ready, room, _ = select.select([terminal], [terminal], [])
                    shown += decoder.decode(os.read(terminal, 65536)) if ready else ""
                    at += os.write(terminal, text[at:at + 2048]) if room else 0
        os.write(terminal, typed[1].encode())
        for path in [act["deaf_until"] for act in typed[2:] if "deaf_until" in act]:
            while not os.path.exists(path):
                if deadline < time.monotonic():
                    sys.exit("there is no %s while nobody reads" % path)
                time.sleep(0.01)
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
after = termios.tcgetattr(held)
if "ROUGHLY" in os.environ:
    # What was raw before is usable again, though not what it had been long ago.
    before, after = [it[3] & (termios.ICANON | termios.ECHO) for it in (before, after)]
sys.stdout.write(shown)
if keys or after != before:
    sys.exit("left over: %r, terminal %r, not %r" % (keys, after, before))
sys.exit(os.waitstatus_to_exitcode(status))
