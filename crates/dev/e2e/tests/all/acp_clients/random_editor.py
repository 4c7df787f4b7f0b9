"""A strict editor that does whatever it likes: many sessions at once on one connection, files that
are unsaved, behind, in conflict or no UTF-8, questions answered yes, no, late, with nonsense or
never, cancels at any moment. Says what the agent did wrong, and judges every line by the schema.

Arguments: the schema, a seed, how many sessions. The working directory is the editor's to use.
"""
import asyncio
import json
import os
import random
import subprocess
import sys

SCHEMA, SEED, SESSIONS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PATIENCE = 120
STOPS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
ANY_TIME = {
    "session_info_update", "config_option_update", "current_mode_update",
    "available_commands_update", "usage_update", "notice",
}
MODES = ["default", "plan", "acceptEdits", "nonsense"]
# Files of every session: what the disk has first, and what the editor shows.
FILES = {
    "clean.txt": (b"one\ntwo\n", None),
    "unsaved.txt": (b"one\ntwo\n", "one\ntwo\nTYPED\n"),
    "behind.txt": (b"one\nnewer\n", "one\nolder\n"),
    "conflict.txt": (b"one\ntheirs\n", "one\nTYPED\n"),
    "latin.txt": (b"one\ncaf\xe9\n", "one\ncaf\ufffd TYPED\n"),
    "marked.txt": (b"\xef\xbb\xbfone\ntwo\n", "one\ntwo\nTYPED\n"),
    "wide.txt": ("one\ntwo\n".encode("utf-16"), "one\ntwo\nTYPED\n"),
    "windows.txt": (b"one\r\ntwo\r\n", "one\r\ntwo\r\nTYPED\r\n"),
    "mixed.txt": (b"one\r\ntwo\n", "one\ntwo\nTYPED\n"),
}
# Files that an editor would not write as they are.
UNWRITTEN = ("latin.txt", "marked.txt", "wide.txt", "mixed.txt")
problems = []


def wrong(words):
    problems.append(words)


class Connection:
    def __init__(self, agent):
        self.agent, self.next, self.waiting, self.asked, self.heard = agent, 0, {}, {}, []
        self.sessions = {}
        self.answered = set()
        # Questions the agent took back: on a busy machine this editor is slow.
        self.too_slow = set()

    def write(self, message):
        self.agent.stdin.write((json.dumps(message, ensure_ascii=random.random() < 0.5) + "\n").encode())

    def say(self, method, params):
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method, params):
        """Sends a request at once; what comes back is its answer."""
        self.next += 1
        key = self.next if random.random() < 0.7 else f"r-{self.next}"
        self.asked[key] = method
        self.waiting[key] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        return key

    async def answer(self, key):
        return await asyncio.wait_for(asyncio.shield(self.waiting[key]), PATIENCE)

    async def call(self, method, params):
        return await self.answer(self.ask(method, params))

    async def listen(self):
        while line := await self.agent.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError as problem:
                wrong(f"no JSON: {problem}: {line[:200]}")
                continue
            answers = None
            if "method" not in message:
                answers = self.asked.get(message.get("id"))
                if message.get("id") in self.answered or answers is None:
                    wrong(f"an answer to nothing, or a second one: {line[:200]}")
                else:
                    self.answered.add(message["id"])
                    self.waiting[message["id"]].set_result(message)
            else:
                # Updates may come before the session that their answer names is known here.
                session = self.sessions.get(message["params"].get("sessionId"))
                if session is not None:
                    session.hear(message)
                elif message["method"] == "$/cancel_request":
                    self.too_slow.add(message["params"]["requestId"])
            self.heard.append({"line": message, "answers": answers})


class Session:
    def __init__(self, connection, number, dice):
        self.connection, self.dice, self.id = connection, dice, None
        self.cwd = os.path.join(os.getcwd(), f"s{number}")
        self.buffers, self.prompting, self.lines, self.tasks = {}, 0, 0, []
        self.news = asyncio.Event()
        # What this editor was asked to show, and files about which it talked nonsense.
        self.reads, self.unsure = [], set()
        os.makedirs(self.cwd)
        for name, (disk, shown) in FILES.items():
            path = os.path.join(self.cwd, name)
            with open(path, "wb") as file:
                file.write(disk)
            if shown is not None:
                self.buffers[path] = shown

    def hear(self, message):
        self.lines += 1
        self.news.set()
        params = message["params"]
        if message["method"] == "session/update":
            kind = params["update"]["sessionUpdate"]
            if not self.prompting and kind not in ANY_TIME:
                wrong(f"{kind} outside of a prompt: {json.dumps(params)[:300]}")
        elif "id" in message:
            self.tasks.append(asyncio.ensure_future(self.reply(message)))

    async def reply(self, message):
        kind, params = message["method"], message["params"]
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        whim = self.dice.random()
        if kind == "fs/read_text_file":
            self.reads.append((message["id"], params["path"]))
            if whim < 0.08:
                self.unsure.add(params["path"])
        if whim < 0.04:
            answer["error"] = {"code": -32603, "message": "the editor cannot"}
        elif whim < 0.08:
            answer["result"] = self.dice.choice([None, [], {"content": 7}, {"outcome": "yes"}, "x"])
        elif kind == "fs/read_text_file":
            if not params["path"].startswith(self.cwd):
                wrong(f"asked for {params['path']}")
            shown = self.buffers.get(params["path"])
            if shown is None:
                try:
                    shown = open(params["path"], encoding="utf-8", newline="").read()
                except (OSError, UnicodeError):
                    shown = ""
            answer["result"] = {"content": shown}
        elif kind == "fs/write_text_file":
            name = os.path.basename(params["path"])
            if name in UNWRITTEN and "TYPED" in self.buffers.get(params["path"], ""):
                wrong(f"{name} cannot be written as it is, and was")
            if "TYPED" in self.buffers.get(params["path"], "") and "TYPED" not in params["content"] and name != "over.txt":
                wrong(f"what was typed in {name} is lost")
            self.buffers[params["path"]] = params["content"]
            if self.dice.random() < 0.7:
                with open(params["path"], "w", encoding="utf-8", newline="") as file:
                    file.write(params["content"])
            answer["result"] = {}
        elif kind == "session/request_permission":
            await asyncio.sleep(self.dice.choice([0, 0, 0, 0.02, 0.2]))
            options = [it["optionId"] for it in params["options"]] + ["nonsense"]
            if whim < 0.9:
                answer["result"] = {"outcome": {"outcome": "selected", "optionId": self.dice.choice(options)}}
            else:
                answer["result"] = {"outcome": {"outcome": "cancelled"}}
        elif kind == "elicitation/create":
            answer["result"] = {"action": self.dice.choice(["decline", "cancel"])}
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        self.connection.write(answer)

    async def lines_more(self, count):
        """Waits until so many more lines came, or nothing comes for a while."""
        goal = self.lines + count
        while self.lines < goal:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), 1)
            except asyncio.TimeoutError:
                return

    async def open(self):
        made = await self.connection.call("session/new", {"cwd": self.cwd, "mcpServers": []})
        if "error" in made:
            return wrong(f"session/new: {made['error']}")
        self.id = made["result"]["sessionId"]
        self.connection.sessions[self.id] = self

    async def turn(self, number):
        dice, connection, mine = self.dice, self.connection, {"sessionId": self.id}
        blocks = [{"type": "text", "text": dice.choice(["go", "weiter\n<b>", "@clean.txt look", "/compact", "ü👩‍👩‍👧"])}]
        if dice.random() < 0.2:
            link = {"type": "resource_link", "name": "clean.txt", "uri": f"file://{self.cwd}/clean.txt"}
            blocks.append(dice.choice([link, {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}}]))
        # Somebody saves, changes or types before.
        path = os.path.join(self.cwd, dice.choice(list(FILES)))
        if dice.random() < 0.3:
            with open(path, "ab") as file:
                file.write(b"more\n")
        self.prompting += 1
        prompts = [connection.ask("session/prompt", {**mine, "prompt": blocks})]
        if dice.random() < 0.15:
            prompts.append(connection.ask("session/prompt", {**mine, "prompt": [{"type": "text", "text": "and"}]}))
        whim = dice.random()
        if whim < 0.5:
            await self.lines_more(dice.choice([0, 0, 1, 2, 3, 5, 8, 13]))
            connection.say("session/cancel", mine)
            if dice.random() < 0.3:
                connection.say("session/cancel", mine)
        elif whim < 0.6:
            connection.say("$/cancel_request", {"requestId": prompts[-1]})
        elif whim < 0.75:
            await connection.call("session/set_mode", {**mine, "modeId": dice.choice(MODES)})
        elif whim < 0.8:
            connection.ask("session/set_config_option", {**mine, "configId": dice.choice(["mode", "effort", "x"]), "value": dice.choice(["plan", "high", 3])})
        for key in prompts:
            try:
                answer = await connection.answer(key)
            except asyncio.TimeoutError:
                return wrong(f"{self.cwd}: prompt {number} was never answered")
            if "result" in answer and answer["result"].get("stopReason") not in STOPS:
                wrong(f"ended with {answer}")
        self.prompting -= 1

    async def live(self):
        await self.open()
        if self.id is None:
            return
        for number in range(4):
            await self.turn(number)
            if self.dice.random() < 0.2:
                self.connection.say("session/cancel", {"sessionId": self.id})
        mine = {"sessionId": self.id, "cwd": self.cwd, "mcpServers": []}
        if self.dice.random() < 0.5:
            await self.connection.call("session/close", {"sessionId": self.id})
        self.prompting += 1
        loaded = await self.connection.call(self.dice.choice(["session/load", "session/resume"]), mine)
        if "error" in loaded:
            wrong(f"a session that was there cannot be opened again: {loaded['error']}")
        self.prompting -= 1
        await self.turn(5)
        if self.dice.random() < 0.5:
            await self.connection.call("session/close", {"sessionId": self.id})
        self.judge_files()

    def judge_files(self):
        """What was typed is in the editor, or was written by the editor; what cannot be is untouched, unless the
        editor itself was silent or talked nonsense about it."""
        unsure = self.unsure | {path for key, path in self.reads if key in self.connection.too_slow}
        # Who did not answer is not asked for a while about anything.
        is_slow = any(key in self.connection.too_slow for key, _ in self.reads)
        for name, (disk, shown) in FILES.items():
            path = os.path.join(self.cwd, name)
            if shown is not None and "TYPED" in shown and "TYPED" not in self.buffers[path]:
                wrong(f"what was typed in {name} is gone")
            now = open(path, "rb").read()
            if name in UNWRITTEN and not is_slow and path not in unsure and not now.startswith(disk):
                wrong(f"{name} was changed on disk although it is unsaved in the editor: {now}")


async def main():
    random.seed(SEED)
    agent = await asyncio.create_subprocess_exec(
        os.environ["HAFT"], "acp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, limit=64 << 20,
    )
    connection = Connection(agent)
    listening = asyncio.ensure_future(connection.listen())
    abilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    if SEED % 2:
        abilities |= {"session": {"notices": {}, "compaction": {}}, "elicitation": {"form": {}}}
    await connection.call("initialize", {"protocolVersion": 1, "clientCapabilities": abilities})
    sessions = [Session(connection, number, random.Random(SEED * 1000 + number)) for number in range(SESSIONS)]
    await asyncio.gather(*(it.live() for it in sessions))
    agent.stdin.close()
    noise = await agent.stderr.read()
    await listening
    code = await asyncio.wait_for(agent.wait(), PATIENCE)
    if code or noise:
        wrong(f"it ended with {code} and said {noise[:500]}")
    for key, method in connection.asked.items():
        if key not in connection.answered:
            wrong(f"{method} was never answered")
    judge = os.path.join(os.path.dirname(__file__), "judge.py")
    lines = "".join(json.dumps(it) + "\n" for it in connection.heard)
    judged = subprocess.run([sys.executable, judge, SCHEMA], input=lines, capture_output=True, text=True)
    if judged.stdout.strip() != f"{len(connection.heard)} lines fit":
        wrong((judged.stdout + judged.stderr)[:3000])
    kinds = {}
    for entry in connection.heard:
        line = entry["line"]
        kind = line.get("method") or entry["answers"]
        kinds[kind] = kinds.get(kind, 0) + 1
    print("\n".join(sorted(set(problems))[:30]) or f"fine: {len(connection.heard)} lines, {kinds}")


asyncio.run(main())
