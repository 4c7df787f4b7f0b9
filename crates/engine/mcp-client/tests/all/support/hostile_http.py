#!/usr/bin/env python3
"""An HTTP server that misbehaves as the path of the request says. Prints its
port. Written on bare sockets, since no library would send these answers."""
import json
import socket
import sys
import threading
import time

listener = socket.create_server(("127.0.0.1", 0), backlog=128)
PORT = listener.getsockname()[1]
print(PORT, flush=True)

TOOL = {"name": "echo", "description": "Says the same.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


def read_request(stream):
    line = stream.readline()
    if not line:
        return None
    method, path, _ = line.decode().split(" ", 2)
    headers = {}
    while True:
        line = stream.readline().decode().strip()
        if not line:
            break
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return method, path.split("/")[1], headers, body


def response(status, kind=None, body=b"", more=""):
    head = f"HTTP/1.1 {status} X\r\n{more}"
    if kind:
        head += f"content-type: {kind}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def answer_to(message, mode):
    """A proper answer of the older protocol."""
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "http", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": message["params"]["arguments"].get("text", "")}]}
    else:
        return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}


def drip(connection, data, pause):
    for at in range(len(data)):
        connection.sendall(data[at:at + 1])
        time.sleep(pause)


def hold(_connection):
    time.sleep(600)


def bad(mode, connection, method, message):
    """What goes wrong for this mode; None if this request is answered well."""
    is_call = message.get("method") == "tools/call"
    begins = message.get("method") in ("server/discover", "initialize")
    sse = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode()
    simple = {
        "html": response(200, "text/html", b"<html><body>Welcome to the hotel network</body></html>"),
        "empty": response(200, "application/json", b""),
        "nothing": response(204),
        "error500": response(500, "text/plain", b"stack trace " * 10_000),
        "error503": response(503),
        "busy": response(429, more="retry-after: 3600\r\n"),
        "forbidden": response(403, "text/plain", b"go away"),
        "login": response(401),
        "login_loop": response(401, more='www-authenticate: Bearer resource_metadata="http://127.0.0.1:%d/login_loop"\r\n'
                               % PORT),
        "login_garbage": response(401, more="www-authenticate: \x01\x02,,,=\"\r\n"),
        "redirect_loop": response(307, more="location: /redirect_loop\r\n"),
        "redirect_away": response(307, more="location: http://localhost:9/mcp\r\n"),
        "redirect_file": response(307, more="location: file:///etc/passwd\r\n"),
        "redirect_nowhere": response(307),
        "garbage": b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        "bad_gzip": response(200, "application/json", b"not gzip", more="content-encoding: gzip\r\n"),
        "short_body": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{",
        "bad_chunks": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "header_flood": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000 + b"\r\n",
        "long_header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 3_000_000 + b"\r\n\r\n",
        "status_999": b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n",
        "json_text": response(200, "application/json", b'"hello"'),
        "json_null": response(200, "application/json", b"null"),
        "wrong_id": response(200, "application/json", b'{"jsonrpc":"2.0","id":987654,"result":{}}'),
        "sse_garbage": sse + b"data: {not json}\n\nevent\n\n:::\n\n\xff\xfe\n\n",
        "sse_half": sse + b'data: {"jsonrpc":"2.0","id":',
        "sse_empty": sse,
    }
    if mode in simple:
        return simple[mode]
    # These answer the handshake and go wrong later.
    if mode == "call_reset" and is_call or mode == "reset" and begins:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()
        return b""
    if mode == "silent" or mode == "call_silent" and is_call:
        hold(connection)
    if mode == "drip_headers":
        drip(connection, b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000, 0.2)
    if mode == "drip_body" or mode == "call_drip" and is_call:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
        drip(connection, b" " * 100_000, 0.2)
    if mode == "sse_silent" or mode == "call_sse_silent" and is_call:
        connection.sendall(sse)
        hold(connection)
    if mode == "sse_comments" or mode == "call_sse_comments" and is_call:
        connection.sendall(sse)
        while True:
            connection.sendall(b": still here\n\n")
            time.sleep(0.05)
    if mode == "call_sse_flood" and is_call:
        connection.sendall(sse)
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 500}})
        while True:
            connection.sendall(f"data: {note}\n\n".encode() * 50)
    if mode == "call_sse_line" and is_call:
        connection.sendall(sse + b"data: ")
        while True:
            connection.sendall(b"x" * 1_000_000)
    if mode == "call_huge" and is_call:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
    if mode == "call_404" and is_call:
        return response(404, "application/json", b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}')
    if mode == "call_401" and is_call:
        return response(401)
    if mode == "call_202" and is_call:
        return response(202)
    return None


def serve(connection):
    stream = connection.makefile("rb")
    while (request := read_request(stream)) is not None:
        method, mode, _, body = request
        try:
            message = json.loads(body or b"{}")
        except ValueError:
            message = {}
        if method == "POST":
            data = bad(mode, connection, method, message)
            if data is not None:
                connection.sendall(data)
                if not data.startswith(b"HTTP/1.1 4"):
                    return connection.close()
                continue
            if message.get("id") is None:
                connection.sendall(response(202))
                continue
            text = json.dumps(answer_to(message, mode)).encode()
            more = "mcp-session-id: abc\r\n" if mode == "call_404" and message["method"] == "initialize" else ""
            connection.sendall(response(200, "application/json", text, more))
        elif method == "GET" and mode == "news_loop":
            # Ends at once and wants everybody back at once.
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                               b"connection: close\r\n\r\nretry: 0\nid: 1\n\n")
            return connection.close()
        elif method == "GET" and mode == "login_loop":
            connection.sendall(response(401, more='www-authenticate: Bearer resource_metadata='
                                                  '"http://127.0.0.1:%d/login_loop"\r\n' % PORT))
        else:
            connection.sendall(response(405))
    connection.close()


def guarded(connection):
    try:
        serve(connection)
    except (OSError, ValueError, IndexError):
        connection.close()


while True:
    accepted, _ = listener.accept()
    threading.Thread(target=guarded, args=(accepted,), daemon=True).start()
