#!/usr/bin/env python3
"""A stdio MCP server made of data: spec_server.py SPEC.json.

tools      the list as it goes on the wire
calls      by tool: {"result": …}, {"file": a file with the result}, {"die": true}, {"silent": true} or
           {"progress": {"every": s, "count": n}}; others say what they were called with
wait_for   a file that must be there before `initialize` is answered
log, pids  files that get a line per message and per start
"""
import json
import os
import sys
import threading
import time

spec = json.load(open(sys.argv[1]))
lock = threading.Lock()


def send(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def note(name, line):
    if spec.get(name):
        with open(spec[name], "a") as file:
            file.write(line + "\n")


def call(request):
    params = request["params"]
    how = spec.get("calls", {}).get(params["name"], {})
    said = json.dumps({"name": params["name"], "arguments": params.get("arguments")})
    result = how.get("result", {"content": [{"type": "text", "text": said}]})
    if "file" in how:
        result = json.load(open(how["file"]))
    if how.get("die"):
        os._exit(3)
    if how.get("silent"):
        return
    steps = how.get("progress", {"count": 0})
    for step in range(steps["count"]):
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": params["_meta"]["progressToken"], "progress": step + 1, "message": "step %d" % (step + 1)}})
        time.sleep(steps["every"])
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def handle(message):
    note("log", json.dumps(message))
    if "id" not in message or "method" not in message:
        return
    method, answer = message["method"], None
    if method == "tools/call":
        return threading.Thread(target=call, args=(message,), daemon=True).start()
    if method == "initialize":
        while spec.get("wait_for") and not os.path.exists(spec["wait_for"]):
            time.sleep(0.02)
        answer = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "spec", "version": "1"}}
    if method == "tools/list":
        answer = {"tools": spec["tools"]}
    part = {"error": {"code": -32601, "message": "unknown"}} if answer is None else {"result": answer}
    send({"jsonrpc": "2.0", "id": message["id"], **part})


note("pids", str(os.getpid()))
for text in sys.stdin:
    handle(json.loads(text))
