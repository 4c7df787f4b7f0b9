"""Every block of Python in the second seed, word for word, with a played model.

The text is not in this repository; where it is not there, nothing is run. A block that is part of
a program is put where it would stand, nothing in it is changed.
"""

import asyncio
import glob
import os
import re
import sys
import textwrap

from harness import CLI, case, last, results, text, tool

SHARED = os.environ.get("HAFT_SDK_DOCUMENTS", "")
FOUND = sorted(glob.glob(os.path.join(SHARED, "seeds", "002_*.txt")))
SEED = open(FOUND[0]).read() if FOUND else ""
BLOCKS = [it.rstrip() for it in re.findall(r"```python\n(.*?)```", SEED, re.S)]

BEFORE = """
import asyncio, sys
from claude_agent_sdk import *
from claude_agent_sdk._internal.transport import subprocess_cli
subprocess_cli.SubprocessCLITransport._find_cli = lambda self: sys.argv[1]
temperature = 21
options = ClaudeAgentOptions()
"""
# What the program does with what a block makes.
AFTER = """
async def run():
    seen = [message async for message in query(prompt="What is here?", options=options)]
    print("RESULT", seen[-1].subtype, seen[-1].result)
asyncio.run(run())
"""


def program(block):
    """The block, where it would stand in a program."""
    try:
        compile(block, "block", "exec")
        body = block
    except SyntaxError:
        body = "async def block():\n" + textwrap.indent(block, "    ") + "\nasyncio.run(block())"
    if all(line.lstrip().startswith(("#", "allowed_tools=")) or not line.strip() for line in block.splitlines()):
        lists = [line for line in block.splitlines() if line.startswith("allowed_tools=")]
        body = "\n".join(f"options = ClaudeAgentOptions(\n{line}\n)" for line in lists)
    return BEFORE + body + AFTER


def add(number, block):
    async def check(t):
        env = {**os.environ, "HOME": t.home, "ANTHROPIC_BASE_URL": t.url, "ANTHROPIC_API_KEY": "key"}
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-B", "-c", program(block), CLI, cwd=t.ws, env=env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        out, err = (it.decode() for it in await child.communicate())
        if "handler=" in block:
            # The SDK itself has no such parameter; no executable can help.
            assert "unexpected keyword argument" in err and "handler" in err, err
            return
        assert child.returncode == 0 and "RESULT success Done." in out, f"{block}\n{out}\n{err}"
        if "log_tool_use" in block:
            assert "Tool: Glob" in out and "Args: {'pattern': '*'}" in out, out

    check.__name__ = f"seed_block_{number}"
    # A block that asks by itself gets the same answers as what comes after it.
    turns = [tool("Glob", pattern="*"), text("Done.")]
    case(*turns * (2 if "async for message in query" in block else 1))(check)


for number, block in enumerate(BLOCKS):
    add(number, block)
