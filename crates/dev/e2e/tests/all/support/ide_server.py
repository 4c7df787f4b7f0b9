"""An editor's plugin: MCP over a WebSocket, for whoever has the token. Prints its port. With a second
argument it says what is selected as soon as somebody is there; the third is what the person says to diffs."""
import base64, hashlib, json, socket, struct, sys

token = sys.argv[1]
verdict = sys.argv[3] if len(sys.argv) > 3 else None
selected = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)


def read(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def frame(stream):
    head = read(stream, 2)
    length = head[1] & 127
    if length == 126:
        length = struct.unpack(">H", read(stream, 2))[0]
    elif length == 127:
        length = struct.unpack(">Q", read(stream, 8))[0]
    mask = read(stream, 4) if head[1] & 128 else bytes(4)
    data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(read(stream, length)))
    return head[0] & 15, data


def send(connection, value):
    data = json.dumps(value).encode()
    head = bytes([0x81]) + (bytes([len(data)]) if len(data) < 126 else bytes([126]) + struct.pack(">H", len(data)))
    connection.sendall(head + data)


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "editor", "version": "1"}}
    if method == "tools/list":
        diff = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("openDiff", "close_tab")]
        return {"tools": (diff if verdict else []) + [{"name": "getCurrentSelection", "description": "What is selected.", "inputSchema": {"type": "object"}}]}
    if method == "tools/call" and params["name"] == "openDiff":
        said = params["arguments"]["new_file_contents"]
        texts = {"saved": ["FILE_SAVED", said], "changed": ["FILE_SAVED", said + "by hand\n"], "rejected": ["DIFF_REJECTED", "tab"]}[verdict]
        return {"content": [{"type": "text", "text": text} for text in texts]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps({"text": "selected words", "filePath": "/x/a.txt"})}]}
    return None


while True:
    connection, _ = listener.accept()
    stream = connection.makefile("rb")
    headers = {}
    for line in iter(stream.readline, b"\r\n"):
        if not line:
            break
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("x-claude-code-ide-authorization") != token:
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        connection.close()
        continue
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    protocol = "Sec-WebSocket-Protocol: mcp\r\n" if "mcp" in headers.get("sec-websocket-protocol", "") else ""
    connection.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{protocol}\r\n".encode())
    try:
        while True:
            kind, data = frame(stream)
            if kind == 8:
                break
            if kind != 1:
                continue
            message = json.loads(data)
            if message.get("method") == "notifications/initialized" and selected:
                send(connection, {"jsonrpc": "2.0", "method": "selection_changed", "params": selected})
            if "id" not in message:
                continue
            result = answer(message["method"], message.get("params") or {})
            if result is None:
                send(connection, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
            else:
                send(connection, {"jsonrpc": "2.0", "id": message["id"], "result": result})
    except (EOFError, ConnectionError):
        pass
    connection.close()
