"""Runs cases of the Python Agent SDK, several at once.

Whoever started this program is told on standard output what each case needs, one JSON object per
line, and answers on standard input: it plays the model. Cases are plain functions; what they
assert is all that counts.
"""

import asyncio
import json
import os
import sys
import threading
import traceback

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    SystemMessage,
    ToolResultBlock,
    UserMessage,
    query,
)

CLI = os.environ["HAFT_SDK_CLI"]
CASES = []
TOGETHER = 5


def case(*turns, files=None):
    """A case, and what the model says in it."""

    def register(function):
        CASES.append((function.__name__, list(turns), files or {}, function))
        return function

    return register


def text(words):
    return {"reply": [{"text": words}]}


def tool(name, **data):
    return {"reply": [{"tool": {"name": name, "input": data}}]}


def both(*turns):
    """Several pieces in one answer."""
    return {"reply": [piece for turn in turns for piece in turn["reply"]]}


def stall(*turns):
    return {"reply": [*both(*turns)["reply"], {"stall": "forever"}]}


class Link:
    """The other end of standard input and output."""

    def __init__(self):
        self.out, self.waiting, self.count = sys.stdout, {}, 0
        sys.stdout = sys.stderr

    def start(self, loop):
        def listen():
            for line in sys.stdin:
                answer = json.loads(line)
                loop.call_soon_threadsafe(self.waiting.pop(answer["id"]).set_result, answer)

        threading.Thread(target=listen, daemon=True).start()

    def tell(self, **message):
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()

    async def ask(self, **message):
        self.count += 1
        waiting = self.waiting[self.count] = asyncio.get_running_loop().create_future()
        self.tell(id=self.count, **message)
        return await waiting


LINK = Link()


class Case:
    """One case: its directories, its model, and short ways to say things."""

    def __init__(self, name, place):
        self.name, self.ws, self.home, self.url = name, place["ws"], place["home"], place["url"]
        self.stderr = []

    def path(self, name):
        return os.path.join(self.ws, name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def has(self, name):
        return os.path.exists(self.path(name))

    def options(self, **more):
        env = {
            "HOME": self.home,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "key",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **more.pop("env", {}),
        }
        return ClaudeAgentOptions(cli_path=CLI, cwd=self.ws, env=env, stderr=self.stderr.append, **more)

    async def run(self, prompt="go", **more):
        """Every message of one query."""
        return [message async for message in query(prompt=prompt, options=self.options(**more))]

    async def result(self, prompt="go", **more):
        return last(await self.run(prompt, **more))

    def client(self, **more):
        return ClaudeSDKClient(self.options(**more))

    async def requests(self):
        """What the model was asked so far."""
        return (await LINK.ask(op="requests", case=self.name))["requests"]


async def turn(client, prompt):
    await client.query(prompt)
    return [message async for message in client.receive_response()]


def last(messages):
    results = [it for it in messages if isinstance(it, ResultMessage)]
    assert results, messages
    return results[-1]


def init(messages):
    return next(it.data for it in messages if isinstance(it, SystemMessage) and it.subtype == "init")


def systems(messages, subtype):
    return [it.data for it in messages if isinstance(it, SystemMessage) and it.subtype == subtype]


def users(messages):
    return [it for it in messages if isinstance(it, UserMessage)]


def results(messages):
    """The results of tools."""
    blocks = [block for it in users(messages) for block in it.content if not isinstance(it.content, str)]
    return [block for block in blocks if isinstance(block, ToolResultBlock)]


def words(messages):
    blocks = [block for it in messages if isinstance(it, AssistantMessage) for block in it.content]
    return [block.text for block in blocks if hasattr(block, "text")]


def kinds(messages):
    return [f"{type(it).__name__}" for it in messages]


def content(result):
    return result.content if isinstance(result.content, str) else json.dumps(result.content)


async def run_one(limit, name, turns, files, function):
    async with limit:
        case = Case(name, await LINK.ask(op="begin", case=name, turns=turns, files=files))
        try:
            async with asyncio.timeout(240):
                await function(case)
            problem = None
        except BaseException:
            problem = traceback.format_exc()
        # What a person is told on purpose is no noise.
        told = ("not in force until you trust", "waiting for what runs in the background")
        lines = "".join(case.stderr).splitlines()
        noise = "\n".join(line for line in lines if not any(it in line for it in told)).strip()
        LINK.tell(op="done", case=name, problem=problem, stderr=noise)


async def main():
    LINK.start(asyncio.get_running_loop())
    only = os.environ.get("HAFT_SDK_CASE")
    limit = asyncio.Semaphore(TOGETHER)
    chosen = [it for it in CASES if not only or only in it[0]]
    await asyncio.gather(*(run_one(limit, *it) for it in chosen))
    LINK.tell(op="end")
