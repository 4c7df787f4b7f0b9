"""A server of the framework most Python servers are made with."""

from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool
def echo(text: str) -> str:
    """Says the same."""
    return text


@server.tool
async def count(upto: int, context: Context) -> dict[str, list[int]]:
    """Counts, and says how far it is."""
    for number in range(upto):
        await context.report_progress(number, upto)
    return {"counted": list(range(upto))}


server.run(show_banner=False)
