#!/usr/bin/env python3
"""A stdio MCP server that is there or not, and offers what a directory says.

flapping_server.py DIR: does not start while DIR/down exists, offers the tools
in DIR/tools.json, and leaves its process id in DIR/pid.
"""
import json
import os
import sys

HERE = sys.argv[1]


def path(name):
    return os.path.join(HERE, name)


if os.path.exists(path("down")):
    sys.exit("down for maintenance")
with open(path("pid.part"), "w") as pid:
    pid.write(str(os.getpid()))
os.replace(path("pid.part"), path("pid"))


def answer(request):
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        return {"protocolVersion": params.get("protocolVersion", "2025-11-25"), "capabilities": {"tools": {}},
                "serverInfo": {"name": "flapping", "version": "1"}, "instructions": "Ask me about anything."}
    if method == "tools/list":
        with open(path("tools.json")) as tools:
            return {"tools": json.load(tools)}
    if method == "tools/call":
        said = json.dumps({"called": params["name"], "with": params.get("arguments", {})}, sort_keys=True)
        return {"content": [{"type": "text", "text": said}]}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue
    result = answer(request)
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
