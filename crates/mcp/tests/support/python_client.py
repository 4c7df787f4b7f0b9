"""The official Python client (version 1 or 2) against a server of ours.

python_client.py stdio PROGRAM | python_client.py http URL
Prints one JSON object: the tools and the results of three calls.
"""
import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

try:
    from mcp.client.streamable_http import streamable_http_client as http_client
except ImportError:
    from mcp.client.streamable_http import streamablehttp_client as http_client


def text(result):
    error = getattr(result, "is_error", None)
    if error is None:
        error = getattr(result, "isError", False)
    return [bool(error), result.content[0].text]


async def talk(read, write):
    async with ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        echo = await session.call_tool("echo", {"text": "hi"})
        write_ = await session.call_tool("write", {"text": "hi"})
        count = await session.call_tool("count", {"count": 3})
        print(json.dumps({
            "tools": sorted(tool.name for tool in tools.tools),
            "echo": text(echo), "write": text(write_), "count": text(count),
        }))


async def main():
    if sys.argv[1] == "stdio":
        async with stdio_client(StdioServerParameters(command=sys.argv[2])) as (read, write):
            await talk(read, write)
    else:
        async with http_client(sys.argv[2]) as streams:
            await talk(streams[0], streams[1])


asyncio.run(main())
