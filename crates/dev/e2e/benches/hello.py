"""One query, timed: first message, result, and the most memory of the executable."""

import asyncio
import glob
import json
import os
import time

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


def memory_of_children():
    """The most memory of what we started, in MB. What wait() reports would be ours before the exec, too."""
    most = 0.0
    for path in glob.glob("/proc/self/task/*/children"):
        with open(path) as file:
            children = file.read().split()
        for child in children:
            try:
                with open(f"/proc/{child}/status") as file:
                    found = [line.split()[1] for line in file if line.startswith("VmHWM")]
            except OSError:
                continue
            most = max([most, *(int(it) / 1024 for it in found)])
    return most


async def main():
    options = ClaudeAgentOptions(cli_path=os.environ["HAFT_SDK_CLI"])
    begun, first, memory = time.monotonic(), None, 0.0
    async for message in query(prompt="hello", options=options):
        now = time.monotonic()
        first = first or now
        if isinstance(message, ResultMessage):
            result = now
            assert message.result == "Hello!", message
        memory = max(memory, memory_of_children())
    print(json.dumps({"first_ms": (first - begun) * 1000, "result_ms": (result - begun) * 1000, "memory_mb": memory}))


asyncio.run(main())
