"""A server made with the official Python SDK, version 1 or 2."""
try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server import MCPServer as Server

server = Server("peer")


@server.tool()
def echo(text: str) -> str:
    """Says the same."""
    return text


server.run()
