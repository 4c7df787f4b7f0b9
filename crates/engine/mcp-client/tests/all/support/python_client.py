"""The official Python client (version 1 or 2) against a server of ours.

python_client.py stdio PROGRAM ARGS... | python_client.py http URL

$HAFT_PEER_CALLS is a JSON list of [tool, arguments]. Prints one JSON object:
the tools, and whether each call failed and what it said.
"""
import asyncio
import json
import os
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
        results = []
        for name, arguments in json.loads(os.environ["HAFT_PEER_CALLS"]):
            results.append(text(await session.call_tool(name, arguments)))
        print(json.dumps({"tools": sorted(tool.name for tool in tools.tools), "results": results}))


async def main():
    if sys.argv[1] == "stdio":
        server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
        async with stdio_client(server) as (read, write):
            await talk(read, write)
    else:
        async with http_client(sys.argv[2]) as streams:
            await talk(streams[0], streams[1])


asyncio.run(main())
