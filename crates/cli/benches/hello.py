"""One query, timed: first message, result, and the most memory of the executable."""

import asyncio
import json
import os
import resource
import time

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


async def main():
    options = ClaudeAgentOptions(cli_path=os.environ["HAFT_SDK_CLI"])
    begun, first = time.monotonic(), None
    async for message in query(prompt="hello", options=options):
        first = first or time.monotonic()
        if isinstance(message, ResultMessage):
            result = time.monotonic()
            assert message.result == "Hello!", message
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"first_ms": (first - begun) * 1000, "result_ms": (result - begun) * 1000, "memory_mb": memory}))


asyncio.run(main())
