import ast, asyncio, inspect, json, os, signal, socket, sys, traceback

os.environ.pop("HAFT_DRIVER", None)
channel = socket.socket(fileno=3)
os.set_inheritable(3, False)
space = {"__name__": "__main__", "__builtins__": __builtins__}
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
waiting = b""


def receive():
    global waiting
    while b"\0" not in waiting:
        part = channel.recv(65536)
        if not part:
            os._exit(0)
        waiting += part
    code, waiting = waiting.split(b"\0", 1)
    return code.decode("utf-8", "surrogateescape")


def run(code):
    tree = ast.parse(code, "<repl>", "exec")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for part, mode in ((tree, "exec"), (last and ast.Expression(last.value), "eval")):
        if part is None:
            continue
        value = eval(compile(part, "<repl>", mode, flags), space)
        if inspect.iscoroutine(value):
            value = loop.run_until_complete(value)
    return value if last else None


signal.signal(signal.SIGINT, signal.default_int_handler)
while True:
    try:
        code = receive()
    except KeyboardInterrupt:
        continue
    answer = {"ok": True}
    try:
        value = run(code)
        if value is not None:
            space["_"] = value
            answer["value"] = repr(value)
    except SystemExit as stop:
        sys.stdout.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 0)
    except BaseException as error:
        answer["ok"] = False
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename != "<repl>":
            frames = frames.tb_next
        answer["error"] = "".join(traceback.format_exception(type(error), error, frames))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass
    channel.sendall(json.dumps(answer).encode("utf-8") + b"\0")
