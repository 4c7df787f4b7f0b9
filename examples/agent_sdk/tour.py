"""A tour of the Python Agent SDK with Haft as the executable.

    pip install claude-agent-sdk
    HAFT=/path/to/haft python tour.py

Everything here is the SDK's own; only `cli_path` says who does the work.
"""

import asyncio
import os

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

HAFT = os.environ.get("HAFT", "haft")


@tool("add", "Adds two numbers", {"a": float, "b": float})
async def add(args):
    return {"content": [{"type": "text", "text": str(float(args["a"] + args["b"]))}]}


@tool("fail", "Always fails", {})
async def fail(args):
    raise RuntimeError("this one fails")


async def on_prompt(data, tool_use_id, context):
    print("hook:", data["hook_event_name"])
    return {}


async def keep_secrets(data, tool_use_id, context):
    if "secret" not in data["tool_input"]["file_path"]:
        return {}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "secrets stay as they are",
        }
    }


async def approve(name, data, context):
    calls.append(f"asked: {name} {os.path.basename(data['file_path'])}")
    return PermissionResultAllow(updated_input={**data, "content": "from the host"})


calls: list[str] = []


def short(block):
    text = block.content if isinstance(block.content, str) else block.content[0]["text"]
    return text.strip()


async def turn(client, prompt):
    """Sends a prompt and prints what came of it."""
    names = {}
    await client.query(prompt)
    async for message in client.receive_response():
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolUseBlock):
                    names[block.id] = block.name.removeprefix("mcp__calc__")
        elif isinstance(message, UserMessage):
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    show(names[block.tool_use_id], block)
        elif isinstance(message, ResultMessage):
            print("client:", message.result)


def show(name, block):
    if name == "Write":
        if not block.is_error:
            while calls:
                print(calls.pop(0))
        print(f"tool: {name} ->", "error" if block.is_error else "ok")
    else:
        print(f"tool: {name} ->", ("error: " if block.is_error else "") + short(block))


async def main():
    async for message in query(prompt="Say hello", options=ClaudeAgentOptions(cli_path=HAFT)):
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, TextBlock):
                    print("query:", block.text)

    options = ClaudeAgentOptions(
        cli_path=HAFT,
        mcp_servers={"calc": create_sdk_mcp_server("calc", tools=[add, fail])},
        allowed_tools=["mcp__calc__*"],
        can_use_tool=approve,
        hooks={
            "UserPromptSubmit": [HookMatcher(hooks=[on_prompt])],
            "PreToolUse": [HookMatcher(matcher="Write", hooks=[keep_secrets])],
        },
    )
    async with ClaudeSDKClient(options) as client:
        await turn(client, "Work with the tools")
        await client.set_permission_mode("plan")
        await turn(client, "And again")

    schema = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    options = ClaudeAgentOptions(cli_path=HAFT, output_format={"type": "json_schema", "schema": schema})
    async for message in query(prompt="Add 1 and 2", options=options):
        if isinstance(message, ResultMessage):
            print("structured:", message.structured_output)


asyncio.run(main())
