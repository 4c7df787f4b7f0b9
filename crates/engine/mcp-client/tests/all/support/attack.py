"""Clients that `haft mcp serve --http` has to put up with, on raw sockets.

    attack.py URL TOKEN PID DIRECTORY [NAME...]

The server runs with Read and Bash allowed and was started in DIRECTORY, which
holds `small.txt` ("small") and `big.txt`. Prints a JSON object per check; `why` is
null where the server did well. Only what the standard library has.
"""

import collections
import concurrent.futures
import json
import os
import re
import socket
import sys
import time

URL, TOKEN, PID, DIRECTORY = sys.argv[1:5]
HOST, PORT = re.match(r"http://([\d.]+):(\d+)/mcp$", URL).groups()
PORT = int(PORT)
PATIENCE = 30
AUTH = "Authorization: Bearer %s" % TOKEN
JSON = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "attack", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def connect():
    stream = socket.create_connection((HOST, PORT), timeout=PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def head(method="POST", target="/mcp", headers=(), host=None, version="HTTP/1.1"):
    lines = ["%s %s %s" % (method, target, version)]
    if host is not False:
        lines.append("Host: %s" % (host if host is not None else "%s:%d" % (HOST, PORT)))
    return ("\r\n".join(lines + list(headers)) + "\r\n\r\n").encode("latin-1")


def modern(tool="Read", arguments=None, headers=(), auth=AUTH, number=1, **more):
    arguments = arguments if arguments is not None else {"file_path": DIRECTORY + "/small.txt"}
    body = json.dumps(
        {"jsonrpc": "2.0", "id": number, "method": "tools/call",
         "params": {"name": tool, "arguments": arguments, "_meta": META}}
    ).encode()
    own = ["Mcp-Method: tools/call", "Mcp-Name: %s" % tool, "MCP-Protocol-Version: %s" % MODERN]
    own += JSON + ([auth] if auth else []) + ["Content-Length: %d" % len(body)] + list(headers)
    return head(headers=own, **more) + body


def legacy(message, session=None, headers=(), auth=AUTH, **more):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    own = JSON + [auth] + ["Content-Length: %d" % len(body)] + list(headers)
    if session:
        own += ["Mcp-Session-Id: %s" % session, "MCP-Protocol-Version: 2025-11-25"]
    return head(headers=own, **more) + body


INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}}


class Reader:
    """Reads answers one by one."""

    def __init__(self, stream):
        self.stream = stream
        self.rest = b""

    def more(self):
        try:
            piece = self.stream.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            piece = b""
        self.rest += piece
        return bool(piece)

    def answer(self, whole=True):
        """Status, headers and body; None when the server closed."""
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                return None
        top, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = top.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if not whole or status in (204, 304):
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                while b"\r\n" not in self.rest:
                    if not self.more():
                        return status, headers, body
                size, self.rest = self.rest.split(b"\r\n", 1)
                size = int(size.split(b";")[0], 16)
                while len(self.rest) < size + 2:
                    if not self.more():
                        return status, headers, body
                body, self.rest = body + self.rest[:size], self.rest[size + 2:]
                if size == 0:
                    return status, headers, body
        length = int(headers.get("content-length", 0))
        while len(self.rest) < length:
            if not self.more():
                break
        body, self.rest = self.rest[:length], self.rest[length:]
        return status, headers, body

    def is_closed(self):
        return not self.rest and not self.more()


def ask(request):
    """One request on a connection of its own."""
    with connect() as stream:
        try:
            stream.sendall(request)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return Reader(stream).answer()


def status(request):
    answer = ask(request)
    return answer and answer[0]


def result(body):
    """The message in an answer, whether it came alone or as a stream."""
    text = body.decode()
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")] or [text]
    messages = [json.loads(line) for line in lines if line]
    return [it for it in messages if "result" in it or "error" in it][-1]


def good(request=None):
    """The server does what it is for."""
    answer = ask(request or modern())
    assert answer and answer[0] == 200, "a good call: %r" % (answer,)
    said = result(answer[2])
    assert "small" in json.dumps(said), "a good call: %r" % said
    return answer


def begin():
    answer = ask(legacy(INITIALIZE))
    assert answer[0] == 200, "initialize: %r" % (answer,)
    session = answer[1]["mcp-session-id"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert status(legacy(note, session)) == 202
    return session


def refused(request, name, codes=(400, 401, 403, 404, 405, 406, 411, 413, 414, 415, 417, 421, 431, 501, 505)):
    """Refused as the client's fault, or cut off without a word."""
    got = status(request)
    assert got is None or got in codes, "%s: %r" % (name, got)


def memory():
    with open("/proc/%s/status" % PID) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) // 1024


def descriptors():
    return len(os.listdir("/proc/%s/fd" % PID))


def eventually(what, happened):
    until = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < until, "it did not happen: " + what
        time.sleep(0.05)


def alive(mark):
    """Whether a command that wrote its process number into a file still runs."""
    try:
        with open(mark) as file:
            number = file.read().strip()
        with open("/proc/%s/stat" % number) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def sleeper(name):
    mark = os.path.join(DIRECTORY, name)
    return mark, {"command": "echo $$ > %s; sleep 600" % mark}


def written(mark):
    return os.path.exists(mark) and os.path.getsize(mark) > 0


# -- who may come in


@check
def names_of_this_machine_are_let_in():
    for host in ["localhost", "LOCALHOST:%d" % PORT, "127.0.0.1", "[::1]:%d" % PORT]:
        got = status(modern(host=host))
        assert got == 200, "%s: %r" % (host, got)


@check
def other_names_are_not():
    for host in [
        "evil.test", "evil.test:%d" % PORT, "localhost.evil.test", "127.0.0.1.nip.io", "evil.localhost.test",
        "127.0.0.1@evil.test", "evil.test#127.0.0.1", "evil.test?localhost", "[::1].evil.test", "0.0.0.0",
        "2130706433", "0x7f.1", "127.1", "localhost:80:80", "localhost:abc", "localhost evil.test", "", " ",
        "evil.test, localhost", "localhost/..", "localhost\\.evil.test",
    ]:
        refused(modern(host=host), host)
    refused(modern(host=False), "no host")
    for hosts in [("localhost", "evil.test"), ("evil.test", "localhost")]:
        refused(modern(host=hosts[0], headers=["Host: " + hosts[1]]), "two hosts %r" % (hosts,))
    for target in ["http://evil.test/mcp", "http://evil.test:%d/mcp" % PORT, "http://localhost@evil.test/mcp"]:
        refused(modern(target=target), target)


@check
def pages_of_others_are_not():
    for origin in [
        "null", "https://evil.test", "http://localhost.evil.test", "http://127.0.0.1.evil.test:80",
        "http://localhost:1@evil.test", "http://evil.test#http://localhost", "file://", "http://[::1].evil.test",
        "http://localhost:80, https://evil.test", "chrome-extension://abc", "", "http://localhost:x",
    ]:
        refused(modern(headers=["Origin: " + origin]), origin)
    for pair in [("http://localhost:1", "https://evil.test"), ("https://evil.test", "http://localhost:1")]:
        refused(modern(headers=["Origin: " + it for it in pair]), "two origins %r" % (pair,))
    # Pages of this machine are others' pages too; the server's own is not.
    for origin in ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:8080"]:
        refused(modern(headers=["Origin: " + origin]), origin)
    own = "http://%s:%d" % (HOST, PORT)
    got = status(modern(headers=["Origin: " + own]))
    assert got == 200, "%s: %r" % (own, got)
    refused(head("OPTIONS", headers=["Origin: https://evil.test", "Access-Control-Request-Method: POST"]), "preflight")


@check
def only_the_token_lets_in():
    for auth in [
        None, "Authorization: Bearer", "Authorization: Bearer ", "Authorization: Bearer wrong",
        "Authorization: Basic %s" % TOKEN, "Authorization: %s" % TOKEN, "Authorization: Bearer %sx" % TOKEN,
        "Authorization: Bearer %s" % TOKEN[:-1], "Authorization: Bearer %s, Bearer x" % TOKEN,
        "Authorization: Bearer \xff\xfe", "X-Authorization: Bearer %s" % TOKEN, "Cookie: token=%s" % TOKEN,
        "Authorization: Bearer " + "x" * 8000,
    ]:
        got = ask(modern(auth=auth))
        assert got is None or got[0] in (400, 401), "%r: %r" % (auth, got)
        if got and got[0] == 401:
            assert got[1].get("www-authenticate", "").startswith("Bearer"), "no challenge: %r" % (got,)
    for pair in [(TOKEN, "wrong"), ("wrong", TOKEN)]:
        headers = ["Authorization: Bearer " + it for it in pair]
        got = status(modern(auth=None, headers=headers))
        assert got in (400, 401, None), "two tokens %r: %r" % (pair, got)
    assert status(modern(auth=None, target="/mcp?access_token=%s&token=%s" % (TOKEN, TOKEN))) == 401
    for method in ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"]:
        with connect() as stream:
            stream.sendall(head(method))
            got = Reader(stream).answer(whole=False)
        assert got and got[0] in (401, 403), "%s without a token: %r" % (method, got)
    assert status(modern(auth="authorization: bearer %s" % TOKEN)) == 200


# -- what HTTP allows


@check
def old_http_is_answered_and_closed():
    with connect() as stream:
        stream.sendall(modern(version="HTTP/1.0"))
        reader = Reader(stream)
        answer = reader.answer()
        assert answer and answer[0] == 200, answer
        assert reader.is_closed(), "the connection stays open"
    for version in ["HTTP/0.9", "HTTP/3.0", "HTTP/1.1x", "http/1.1", ""]:
        refused(modern(version=version), version)
    with connect() as stream:
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        Reader(stream).answer()
    good()


@check
def requests_in_a_row_are_answered_in_order():
    with connect() as stream:
        stream.sendall(b"".join(modern(number=number) for number in range(20)))
        reader = Reader(stream)
        for number in range(20):
            answer = reader.answer()
            assert answer and answer[0] == 200, "%d: %r" % (number, answer)
            assert result(answer[2])["id"] == number


@check
def pieces_are_put_together_and_bad_ones_refused():
    whole = modern()
    top, body = whole.split(b"\r\n\r\n", 1)
    top = re.sub(rb"\r\nContent-Length: \d+", b"", top) + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = b"".join(b"%x;x=y\r\n%s\r\n" % (len(body[at:at + 7]), body[at:at + 7]) for at in range(0, len(body), 7))
    good(top + pieces + b"0\r\nTrailer: x\r\n\r\n")
    for bad in [
        b"zz\r\nab\r\n0\r\n\r\n", b"-1\r\na\r\n0\r\n\r\n", b"fffffffffffffffff\r\na\r\n", b"\r\n\r\n", b"1\r\nabc\r\n0\r\n\r\n",
        b"1;" + b"x" * 200000 + b"\r\na\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"5 5\r\nhello\r\n0\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * 20000 + b"\r\n",
    ]:
        refused(top + bad, repr(bad[:30]))
    good()


@check
def no_request_is_smuggled_in_another():
    inner = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n" + AUTH.encode() + b"\r\n\r\n"
    start = ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n" % (AUTH, "\r\n".join(JSON))).encode()
    for lines in [
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (5 + len(inner)),
        b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % (5 + len(inner)),
        b"Content-Length: 5\r\nContent-Length: %d\r\n" % (5 + len(inner)),
        b"Content-Length: 5, 5\r\n", b"Content-Length: +5\r\n", b"Content-Length: -5\r\n", b"Content-Length: 5 5\r\n",
        b"Content-Length: 0x5\r\n", b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
        b"Transfer-Encoding: \r\n chunked\r\n", b"X: a\x00b\r\nContent-Length: 5\r\n", b"Content-Length : 5\r\n",
    ]:
        with connect() as stream:
            stream.sendall(start + lines + b"\r\n" + b"0\r\n\r\n" + inner)
            stream.shutdown(socket.SHUT_WR)
            reader, seen = Reader(stream), []
            while len(seen) < 5:
                answer = reader.answer()
                if answer is None:
                    break
                seen.append(answer[0])
        # Either the whole thing is refused and nothing behind it is read, or the
        # framing was plain (a length alone), and then both are requests.
        assert len(seen) <= 1 and all(400 <= it < 600 for it in seen), "%r: %r" % (lines, seen)
    good()


@check
def what_is_too_large_is_not_read():
    before = memory()
    own = JSON + [AUTH]
    for size in [17 << 20, 1 << 40]:
        with connect() as stream:
            stream.sendall(head(headers=own + ["Content-Length: %d" % size]) + b"{")
            answer = Reader(stream).answer()
            assert answer is None or answer[0] in (400, 413), "%d: %r" % (size, answer)
    with connect() as stream:
        stream.sendall(head(headers=own + ["Transfer-Encoding: chunked"]))
        try:
            for _ in range(40):
                stream.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        except OSError:
            pass
        answer = Reader(stream).answer()
        assert answer is None or answer[0] in (400, 413), answer
    refused(head(headers=own + ["X: " + "y" * (1 << 20)]), "a header of a megabyte")
    refused(head(headers=own + ["X%d: y" % number for number in range(5000)]), "5000 headers")
    refused(head(target="/mcp?" + "x" * 200000, headers=own), "a long address")
    refused(b"G" * 1000000, "a line that never ends")
    assert memory() - before < 100, "%d MiB, and before %d" % (memory(), before)
    good()


@check
def bodies_that_are_no_message_are_refused():
    deep = b"[" * 200000 + b"]" * 200000
    for body in [
        b"", b"nonsense", b"\xff\xfe", b"{", b"null", b"5", b'"text"', b"[]", deep, b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'{"a":' * 50000 + b"1" + b"}" * 50000,
        b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    ]:
        answer = ask(legacy(body))
        assert answer and 400 <= answer[0] < 500, "%r: %r" % (body[:60], answer)
    session = begin()
    answer = ask(legacy([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], session))
    assert answer and 400 <= answer[0] < 500, "a batch: %r" % (answer,)
    note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    assert status(legacy(note, session)) == 202
    answer = {"jsonrpc": "2.0", "id": 77, "result": {}}
    assert status(legacy(answer, session)) in (202, 400), "an answer nobody asked for"
    good()


@check
def headers_must_say_what_comes():
    session = begin()
    ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
    body = json.dumps(ping).encode()
    ids = ["Mcp-Session-Id: " + session, AUTH, "Content-Length: %d" % len(body)]
    kind, accept, version = JSON[0], JSON[1], "MCP-Protocol-Version: 2025-11-25"
    for headers, wanted in [
        ([kind, accept, version], (200,)),
        (["Content-Type: application/json; charset=utf-8", accept, version], (200,)),
        (["Content-Type: text/plain", accept, version], (415,)),
        ([accept, version], (415,)),
        ([kind, "Accept: text/html", version], (406,)),
        ([kind, "Accept: application/json", version], (406, 200)),
        ([kind, accept, "MCP-Protocol-Version: 1999-01-01"], (400,)),
        ([kind, accept, "MCP-Protocol-Version: \xff"], (400,)),
        ([kind, accept], (200,)),
    ]:
        got = status(head(headers=ids + headers) + body)
        assert got in wanted, "%r: %r" % (headers, got)
    for method, target in [("PUT", "/mcp"), ("PATCH", "/mcp"), ("TRACE", "/mcp"), ("CONNECT", "x:1"), ("POST", "/"), ("POST", "/mcp/../mcp"), ("POST", "*"), ("GET", "/.git/config")]:
        refused(head(method, target, [AUTH, "Content-Length: 0"]), "%s %s" % (method, target))


# -- sessions and streams


@check
def sessions_nobody_has_are_refused():
    ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
    for session in ["x", "0" * 36, "a" * 7000, "../../etc/passwd", "\xe9", "%00", "'; drop"]:
        got = status(legacy(ping, session))
        assert got in (400, 404, 431), "%r: %r" % (session[:40], got)
        for method in ["GET", "DELETE"]:
            headers = [AUTH, "Accept: text/event-stream", "Mcp-Session-Id: " + session]
            with connect() as stream:
                stream.sendall(head(method, headers=headers))
                got = Reader(stream).answer(whole=False)
            # Who ends what is not there has what it wants.
            gone = method == "DELETE" and got and got[0] in (202, 204)
            assert gone or got and 400 <= got[0] < 500, "%s %r: %r" % (method, session[:40], got)
    one, two = begin(), begin()
    got = status(legacy(ping, one, headers=["Mcp-Session-Id: " + two]))
    assert got in (200, 400), got


@check
def streams_are_held_resumed_and_end_with_their_session():
    session = begin()
    own = [AUTH, "Accept: text/event-stream", "Mcp-Session-Id: " + session]
    held = []
    for last in [None, None, "0", "nonsense", "9" * 400, "1/2/3", "-1"]:
        stream = connect()
        stream.sendall(head("GET", headers=own + ["Connection: close"] + (["Last-Event-ID: " + last] if last else [])))
        answer = Reader(stream).answer(whole=False)
        assert answer and answer[0] < 500, "%r: %r" % (last, answer)
        held.append(stream)
    good(legacy({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "Read", "arguments": {"file_path": DIRECTORY + "/small.txt"}}}, session))
    mark, arguments = sleeper("deleted-mid-call")
    with connect() as stream:
        stream.sendall(legacy({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": {
            "name": "Bash", "arguments": arguments}}, session))
        eventually("the command runs", lambda: written(mark))
        got = status(head("DELETE", headers=own))
        assert got in (200, 202, 204), got
        eventually("the command ended with its session", lambda: not alive(mark))
        stream.settimeout(PATIENCE)
        Reader(stream).answer()
    ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
    assert status(legacy(ping, session)) == 404
    for stream in held:
        stream.settimeout(PATIENCE)
        try:
            while stream.recv(65536):
                pass
        except ConnectionResetError:
            pass
        stream.close()


@check
def a_call_nobody_waits_for_ends():
    mark, arguments = sleeper("left-alone")
    stream = connect()
    stream.sendall(modern("Bash", arguments))
    eventually("the command runs", lambda: written(mark))
    stream.close()
    eventually("the command ended with its client", lambda: not alive(mark))
    session = begin()
    mark, arguments = sleeper("cancelled")
    with connect() as stream:
        stream.sendall(legacy({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {
            "name": "Bash", "arguments": arguments}}, session))
        eventually("the command runs", lambda: written(mark))
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
        assert status(legacy(note, session)) == 202
        eventually("the command was cancelled", lambda: not alive(mark))
    for wrong in ["d", None, {"x": 1}, 10 ** 30]:
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wrong}}
        assert status(legacy(note, session)) in (202, 400, 415, 422)
    good()


@check
def a_flood_of_sessions_finds_an_end():
    before = memory()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: ask(legacy(INITIALIZE)), range(400)))
    codes = collections.Counter(answer and answer[0] for answer in answers)
    assert set(codes) == {200, 503} and codes[200] <= 256, codes
    assert all(it[1].get("retry-after") for it in answers if it[0] == 503)
    good()
    sessions = [it[1]["mcp-session-id"] for it in answers if it[0] == 200]
    assert len(set(sessions)) == len(sessions)
    assert memory() - before < 100, "%d MiB, and before %d" % (memory(), before)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ends = list(pool.map(lambda it: status(head("DELETE", headers=[AUTH, "Mcp-Session-Id: " + it])), sessions))
    assert set(ends) <= {200, 202, 204}, set(ends)
    begin()


# -- many at once


def client(number):
    """One of many: five calls on one connection."""
    with connect() as stream:
        reader = Reader(stream)
        session = None
        if number % 2:
            stream.sendall(legacy(INITIALIZE))
            session = reader.answer()[1].get("mcp-session-id")
            if session is None:
                return "no session"
        for at in range(5):
            if session:
                message = {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {
                    "name": "Read", "arguments": {"file_path": DIRECTORY + "/small.txt"}}}
                stream.sendall(legacy(message, session))
            else:
                stream.sendall(modern(number=at))
            answer = reader.answer()
            if not answer or answer[0] != 200:
                return repr(answer)
            said = result(answer[2])
            if said["id"] != at or "small" not in json.dumps(said):
                return repr(said)
        if session:
            stream.sendall(head("DELETE", headers=[AUTH, "Mcp-Session-Id: " + session]))
            reader.answer()
    return None


@check
def two_hundred_clients_work_beside_slow_ones():
    slow = []
    big = modern("Read", {"file_path": DIRECTORY + "/big.txt"})
    for number in range(60):
        stream = connect()
        if number % 3 == 0:
            stream.sendall(big)  # never reads
        elif number % 3 == 1:
            stream.sendall(big[:number * 3])  # never finishes
        slow.append(stream)
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        problems = [it for it in pool.map(client, range(200)) if it]
    took = time.monotonic() - started
    assert not problems, "%d of 200: %s" % (len(problems), problems[0])
    good()
    for stream in slow:
        stream.close()
    return "1000 calls in %.1f s" % took


@check
def nothing_is_left_over():
    eventually("connections are closed, %d" % descriptors(), lambda: descriptors() < 60)
    assert memory() < 250, "%d MiB" % memory()
    good()
    return "%d MiB, %d descriptors" % (memory(), descriptors())


def main():
    names = sys.argv[5:]
    for function in CHECKS:
        if names and function.__name__ not in names:
            continue
        started, why, note = time.monotonic(), None, None
        try:
            note = function()
        except Exception as err:  # whatever it is, it is told
            why = "%s: %s" % (type(err).__name__, str(err)[:600])
        took = round(time.monotonic() - started, 2)
        print(json.dumps({"check": function.__name__, "why": why, "note": note, "seconds": took}), flush=True)


main()
