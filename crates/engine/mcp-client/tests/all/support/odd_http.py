#!/usr/bin/env python3
"""A second HTTP server on bare sockets, for odd bodies, streams, redirects and WebSockets. The path says what is
odd. Prints its port and that of a stranger, who notes in $ODD_STRANGER what it is told."""
import base64
import gzip
import hashlib
import json
import os
import socket
import struct
import threading
import time

listener, stranger = (socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(2))
PORT, STRANGER = listener.getsockname()[1], stranger.getsockname()[1]
TOOL = {"name": "echo", "description": "Says the same.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
CLOSE = b"connection: close"
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def read_request(stream):
    line = stream.readline()
    if not line:
        return None
    method, path, _ = line.decode().split(" ", 2)
    headers = {}
    while (line := stream.readline().decode().strip()):
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    return method, path.split("/")[1], headers, stream.read(int(headers.get("content-length", 0)))


def reply(body=b"", status=200, kind="application/json", more=""):
    head = "HTTP/1.1 %d X\r\ncontent-type: %s\r\n%scontent-length: %d\r\n%s\r\n\r\n"
    return (head % (status, kind, more, len(body), CLOSE.decode())).encode("latin-1") + body


def proper(message):
    """A proper answer of the older protocol."""
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "odd", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "hi"}]},
    }
    known = message.get("method") in results
    part = {"result": results[message["method"]]} if known else {"error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message.get("id"), **part}


def events(mode, text):
    """The answer as events that are written oddly."""
    return {
        "sse_cr": SSE + b": hello\rid: 1\rdata: " + text + b"\r\r",
        "sse_crlf_bom": SSE + b"\xef\xbb\xbfevent: message\r\ndata: " + text + b"\r\n\r\n",
        "sse_split": SSE + b"".join(b"data: " + part + b"\n" for part in text.replace(b", ", b",\n").split(b"\n")) + b"\n",
        "sse_fields": SSE + b"foo: bar\nretry: -1\nretry: soon\nid\nid: \xff\xfe\ndata:" + text + b"\n\n",
        "sse_no_data": SSE + b"event: message\nid: 1\n\n: nothing\n\n",
        "sse_no_end": SSE + b"data: " + text,
    }.get(mode)


def odd(mode, connection, message, headers):
    """What is odd about the answer to this message; None if nothing is."""
    text = json.dumps(proper(message)).encode()
    is_call = message.get("method") == "tools/call"
    if (stream := events(mode, text)) is not None:
        return stream
    bodies = {
        "bom": reply(b"\xef\xbb\xbf" + text),
        "utf16": reply(text.decode().encode("utf-16"), kind="application/json; charset=utf-16"),
        "latin1": reply(text, kind="application/json; charset=iso-8859-1"),
        "text_plain": reply(text, kind="text/plain"),
        "no_type": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%s\r\n\r\n" % (len(text), CLOSE) + text,
        "batch": reply(b"[" + text + b"]"),
        "gzip": reply(gzip.compress(text), more="content-encoding: gzip\r\n"),
        "trailing": reply(text + b"\n<!-- served by a proxy -->"),
        "cookies": reply(text, more="set-cookie: a=b\r\n" * 50),
        "session_bytes": reply(text, more="mcp-session-id: \xfc\xff\x80\r\n"),
        "session_long": reply(text, more="mcp-session-id: " + "x" * 7000 + "\r\n"),
        "http10": b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + text,
        "no_length": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + text,
        "chunks": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
                  b"connection: close\r\n\r\n"
                  + b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n",
        "two_lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\n" + text,
        "bad_length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n" + text,
        "http09": text,
        "bad_header": b"HTTP/1.1 200 OK\r\nbad header\x00: y\r\n\r\n" + text,
        "upgrade": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: nonsense\r\nconnection: upgrade\r\n\r\n",
        "go_to_port": reply(status=307, more="location: http://127.0.0.1:%d/steal\r\n" % STRANGER),
        "go_by_get": reply(status=303, more="location: /go_by_get_target\r\n"),
        "go_to_name": reply(status=308, more="location: http://localhost:%d/steal\r\n" % STRANGER),
        "go_to_data": reply(status=302, more="location: data:text/plain,hi\r\n"),
        "teapot": reply(b'{"detail": "I am a teapot \x1b[2J"}', status=418),
        "payment": reply(b"pay \xff\xfe first", status=402, kind="text/plain"),
        "gateway": reply(b"<html>\x1b]0;x\x07<h1>502 Bad Gateway</h1></html>", status=502, kind="text/html"),
        "rpc_400": reply(json.dumps({"jsonrpc": "2.0", "id": None, "error": {
            "code": -32600, "message": "no such tenant \x1b[31m"}}).encode(), status=400),
    }
    if mode in bodies:
        return bodies[mode]
    if mode == "bomb" or mode == "call_bomb" and is_call:
        zeros = gzip.compress(b" " * (256 << 20), compresslevel=1)
        return reply(zeros, more="content-encoding: gzip\r\n")
    if mode == "continue":
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.05)
    if mode == "call_replay" and is_call:
        return SSE + b"retry: 0\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"
    if mode == "call_other_answer" and is_call:
        return SSE + b"data: {\"jsonrpc\":\"2.0\",\"id\":424242,\"result\":{}}\n\n"
    return None


def frame(opcode, payload, mask=False):
    size = len(payload)
    head = bytes([0x80 | opcode])
    flag = 0x80 if mask else 0
    if size < 126:
        head += bytes([flag | size])
    elif size < 65536:
        head += bytes([flag | 126]) + struct.pack(">H", size)
    else:
        head += bytes([flag | 127]) + struct.pack(">Q", size)
    return head + (b"\0\0\0\0" if mask else b"") + payload


def read_frame(stream):
    head = stream.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 0x7f
    if size == 126:
        size = struct.unpack(">H", stream.read(2))[0]
    elif size == 127:
        size = struct.unpack(">Q", stream.read(8))[0]
    mask = stream.read(4) if head[1] & 0x80 else b"\0\0\0\0"
    return head[0] & 0xf, bytes(byte ^ mask[at % 4] for at, byte in enumerate(stream.read(size)))


def web_socket(mode, connection, stream, headers):
    key = headers.get("sec-websocket-key", "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    accept = "nonsense" if mode == "ws_bad_accept" else accept
    connection.sendall(("HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                        "sec-websocket-accept: %s\r\n\r\n" % accept).encode())
    if mode == "ws_close":
        connection.sendall(frame(8, struct.pack(">H", 1008) + "your token \x1b[31mhas expired".encode()))
    while (got := read_frame(stream)) is not None:
        opcode, payload = got
        if opcode == 8:
            return
        message = json.loads(payload) if opcode in (1, 2) else {}
        if mode == "ws_silent" or message.get("id") is None:
            continue
        is_call = message.get("method") == "tools/call"
        text = json.dumps(proper(message)).encode()
        if mode == "ws_binary":
            connection.sendall(frame(2, text))
        elif mode == "ws_pieces":
            connection.sendall(bytes([0x01]) + frame(1, text[:20])[1:] + frame(9, b"ping") + frame(0, text[20:]))
        elif mode == "ws_pings":
            connection.sendall(frame(9, b"x") * 2000 + frame(1, text))
        elif mode == "ws_masked":
            connection.sendall(frame(1, text, mask=True))
        elif mode == "ws_latin1":
            connection.sendall(frame(1, b"\xff" + text))
        elif mode == "ws_call_huge" and is_call:
            connection.sendall(b"\x81\x7f" + struct.pack(">Q", 1 << 40) + b"x" * 100_000)
        elif mode == "ws_call_close" and is_call:
            connection.sendall(frame(8, struct.pack(">H", 4000) + b"bye"))
        elif mode == "ws_call_gone" and is_call:
            return
        else:
            connection.sendall(frame(1, text))


def old_sse(mode, connection):
    """The stream of the oldest transport; what it answers nobody learns."""
    target = {"old_away": "http://127.0.0.1:%d/steal" % STRANGER, "old_file": "file:///etc/passwd",
              "old_junk": "http://[::1"}.get(mode)
    if mode == "old_flood":
        connection.sendall(SSE)
        while True:
            connection.sendall(b"event: ping\ndata: x\n\n" * 100)
    connection.sendall(SSE + (b"event: endpoint\ndata: %s\n\n" % target.encode() if target else b""))
    time.sleep(600)


def serve(connection):
    stream = connection.makefile("rb")
    while (request := read_request(stream)) is not None:
        method, mode, headers, body = request
        if mode.startswith("ws_"):
            web_socket(mode, connection, stream, headers)
            return connection.close()
        if mode.startswith("old_") and method == "GET":
            return old_sse(mode, connection)
        try:
            message = json.loads(body or b"{}")
        except ValueError:
            message = {}
        if method == "GET" and mode == "call_replay":
            connection.sendall(odd(mode, connection, {"method": "tools/call"}, headers))
            return connection.close()
        if method != "POST":
            connection.sendall(reply(status=405))
        elif message.get("id") is None:
            connection.sendall(reply(status=202))
        else:
            data = odd(mode, connection, message, headers)
            connection.sendall(reply(json.dumps(proper(message)).encode()) if data is None else data)
        return connection.close()


def overhear(connection):
    """The stranger takes whatever comes and answers as if it were the server."""
    stream = connection.makefile("rb")
    while (request := read_request(stream)) is not None:
        with open(os.environ["ODD_STRANGER"], "a") as notes:
            notes.write(json.dumps([request[0], request[1], request[2], request[3].decode()]) + "\n")
        connection.sendall(reply(json.dumps(proper(json.loads(request[3] or b"{}"))).encode()))


def guarded(work, connection):
    try:
        work(connection)
    except (OSError, ValueError, IndexError):
        connection.close()


def accept(sockets, work):
    while True:
        accepted, _ = sockets.accept()
        threading.Thread(target=guarded, args=(work, accepted), daemon=True).start()


threading.Thread(target=accept, args=(stranger, overhear), daemon=True).start()
print(PORT, STRANGER, flush=True)
accept(listener, serve)
