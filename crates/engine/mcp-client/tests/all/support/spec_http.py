#!/usr/bin/env python3
"""An HTTP MCP server with sessions, for its restarts: prints its port. POST /restart forgets all sessions, /login
always asks for a login. $SPEC_LOG gets a line per session begun."""
import json
import os
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sessions = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/restart":
            sessions.clear()
            return self.reply(200, {})
        if self.path == "/login":
            return self.reply(401, www_authenticate="Bearer")
        message = json.loads(body)
        method = message.get("method")
        answer = {"jsonrpc": "2.0", "id": message.get("id")}
        if method == "initialize":
            session = str(uuid.uuid4())
            sessions.add(session)
            with open(os.environ["SPEC_LOG"], "a") as log:
                log.write(session + "\n")
            answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                "serverInfo": {"name": "web", "version": "1"}}
            return self.reply(200, answer, mcp_session_id=session)
        if method == "server/discover":
            return self.reply(400, {**answer, "error": {"code": -32601, "message": "unknown"}})
        if self.headers.get("mcp-session-id") not in sessions:
            return self.reply(404, {**answer, "error": {"code": -32001, "message": "Session not found"}})
        if "id" not in message:
            return self.reply(202)
        if method == "tools/list":
            answer["result"] = {"tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {
                "text": {"type": "string"}}}}]}
        else:
            answer["result"] = {"content": [{"type": "text", "text": "from the web"}]}
        self.reply(200, answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
