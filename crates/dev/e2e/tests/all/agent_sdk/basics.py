"""Queries, clients, options, limits, errors, partial messages, structured output."""

import asyncio
import json

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeSDKClient,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    query,
)

from harness import both, case, content, init, kinds, last, results, stall, systems, text, tool, turn, users, words


@case(text("Hello!"))
async def a_query_answers(t):
    messages = await t.run("hi")
    assert kinds(messages) == ["SystemMessage", "AssistantMessage", "ResultMessage"], kinds(messages)
    data = init(messages)
    assert data["cwd"] == t.ws and data["apiKeySource"] == "ANTHROPIC_API_KEY" and "Read" in data["tools"]
    result = last(messages)
    assert (result.subtype, result.result, result.num_turns, result.is_error) == ("success", "Hello!", 1, False)
    assert result.session_id == data["session_id"] and result.usage["output_tokens"] > 0
    assert result.total_cost_usd > 0 and list(result.model_usage.values())[0]["contextWindow"] > 0
    assert t.stderr == []


@case(text("One."), text("Two."))
async def a_client_has_turns(t):
    async with t.client() as client:
        info = await client.get_server_info()
        assert {"compact", "clear", "context"} <= {it["name"] for it in info["commands"]}
        assert last(await turn(client, "first")).result == "One."
        assert last(await turn(client, "second")).result == "Two."
    second = (await t.requests())[1]
    said = json.dumps(second["messages"])
    assert "first" in said and "One." in said and "second" in said


@case(text("One."), text("Two."))
async def prompts_may_be_a_stream(t):
    async def prompts():
        for words in ("a", "b"):
            yield {"type": "user", "message": {"role": "user", "content": words}}

    got = [it.result async for it in query(prompt=prompts(), options=t.options()) if isinstance(it, ResultMessage)]
    assert got == ["One.", "Two."] or got == ["Two."], got


@case(text("I see."))
async def blocks_and_pictures_are_sent(t):
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    blocks = [
        {"type": "text", "text": "what is this"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": pixel}},
    ]

    async def prompts():
        yield {"type": "user", "message": {"role": "user", "content": blocks}}

    async for message in query(prompt=prompts(), options=t.options()):
        if isinstance(message, ResultMessage):
            assert message.result == "I see."
    sent = (await t.requests())[0]["messages"][-1]["content"]
    assert any(it["type"] == "image" and it["source"]["data"] == pixel for it in sent), sent


@case({"reply": [{"thinking": "hm"}, {"text": "Thought."}]})
async def thinking_is_a_block(t):
    messages = await t.run(model="claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2000})
    blocks = [block for it in messages if isinstance(it, AssistantMessage) for block in it.content]
    assert isinstance(blocks[0], ThinkingBlock) and blocks[0].thinking == "hm" and blocks[0].signature
    assert isinstance(blocks[1], TextBlock)
    assert (await t.requests())[0]["thinking"]["budget_tokens"] == 2000


@case({"reply": [{"text": "a fairly long answer that comes in pieces"}]})
async def partial_messages(t):
    messages = await t.run(include_partial_messages=True)
    events = [it.event for it in messages if isinstance(it, StreamEvent)]
    names = [it["type"] for it in events]
    assert names[0] == "message_start" and names[-1] == "message_stop" and names.count("content_block_stop") == 1
    pieces = [it["delta"]["text"] for it in events if it["type"] == "content_block_delta"]
    assert len(pieces) > 1 and "".join(pieces) == "a fairly long answer that comes in pieces"
    at = next(n for n, it in enumerate(messages) if isinstance(it, AssistantMessage))
    stop = next(n for n, it in enumerate(messages) if isinstance(it, StreamEvent) and it.event["type"] == "content_block_stop")
    assert at < stop


@case(text("ok"))
async def prompts_of_the_system_and_models(t):
    messages = await t.run(system_prompt="You are a pirate.", model="claude-sonnet-4-5")
    request = (await t.requests())[0]
    assert request["model"] == "claude-sonnet-4-5" == init(messages)["model"]
    assert json.dumps(request["system"]).count("You are a pirate.") == 1


@case(text("ok"))
async def a_preset_is_appended_to(t):
    await t.run(system_prompt={"type": "preset", "preset": "claude_code", "append": "Always rhyme."})
    system = json.dumps((await t.requests())[0]["system"])
    assert system.count("Always rhyme.") == 1 and len(system) > 500


@case(text("ok"))
async def no_prompt_of_the_system_is_little(t):
    await t.run()
    assert len(json.dumps((await t.requests())[0].get("system", ""))) < 500


@case(text("ok"))
async def tools_are_chosen(t):
    data = init(await t.run(tools=["Read", "Bash"], disallowed_tools=["Bash"]))
    assert "Read" in data["tools"] and not {"Bash", "Write"} & set(data["tools"]), data["tools"]


@case(text("ok"))
async def no_tools_at_all(t):
    await t.run(tools=[])
    names = [it["name"] for it in (await t.requests())[0].get("tools", [])]
    assert not {"Read", "Bash", "Write", "Edit"} & set(names), names


@case(tool("Bash", command="echo 1"), text("never"))
async def turns_are_limited(t):
    seen = []
    try:
        async for message in query(prompt="go", options=t.options(max_turns=1)):
            seen.append(message)
    except (ResultError, ProcessError) as error:
        assert "maximum number of turns" in str(error), error
    result = last(seen)
    assert (result.subtype, result.is_error, result.num_turns) == ("error_max_turns", True, 2)
    assert result.errors == ["Reached maximum number of turns (1)"], result.errors


@case(tool("Bash", command="echo 1"), text("never"))
async def money_is_limited(t):
    seen = []
    try:
        async for message in query(prompt="go", options=t.options(max_budget_usd=0.00001)):
            seen.append(message)
    except (ResultError, ProcessError):
        pass
    assert last(seen).subtype == "error_max_budget_usd"
    assert last(seen).errors == ["Reached maximum budget ($0.00001)"] or last(seen).errors == ["Reached maximum budget ($1e-05)"], last(seen).errors


@case({"error": {"status": 400, "type": "invalid_request_error", "message": "bad thing"}})
async def a_refused_request_is_an_error(t):
    seen = []
    try:
        async for message in query(prompt="go", options=t.options()):
            seen.append(message)
        raise AssertionError("no error")
    except (ResultError, ProcessError) as error:
        assert "bad thing" in str(error), error
    answers = [it for it in seen if isinstance(it, AssistantMessage)]
    assert answers[0].error and "bad thing" in words(seen)[0]
    assert last(seen).is_error and last(seen).subtype == "success"


@case(tool("StructuredOutput", sum="three"), text("I will not"), tool("StructuredOutput", sum=3))
async def output_follows_a_schema(t):
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    messages = await t.run(output_format={"type": "json_schema", "schema": schema})
    result = last(messages)
    assert result.structured_output == {"sum": 3} and json.loads(result.result) == {"sum": 3}
    bad, good = results(messages)
    assert bad.is_error and not good.is_error and content(good) == "Structured output provided successfully"


@case(*[tool("StructuredOutput", wrong=1)] * 6)
async def output_that_never_follows_is_an_error(t):
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    seen = []
    try:
        async for message in query(prompt="go", options=t.options(output_format={"type": "json_schema", "schema": schema})):
            seen.append(message)
    except (ResultError, ProcessError):
        pass
    assert last(seen).subtype == "error_max_structured_output_retries" and len(await t.requests()) == 5


@case(stall(text("begun")), text("again"))
async def interrupted_while_it_speaks(t):
    async with t.client() as client:
        await client.query("go")
        seen = []
        async for message in client.receive_messages():
            seen.append(message)
            if isinstance(message, AssistantMessage):
                await client.interrupt()
            if isinstance(message, ResultMessage):
                break
        assert last(seen).subtype == "error_during_execution" and last(seen).terminal_reason == "aborted_streaming"
        assert any("[Request interrupted by user]" in str(it.content) for it in users(seen))
        assert last(await turn(client, "next")).result == "again"


@case(tool("Bash", command="sleep 30"), text("again"))
async def interrupted_while_a_tool_runs(t):
    async with t.client(allowed_tools=["Bash"]) as client:
        await client.query("go")
        seen = []
        async for message in client.receive_messages():
            seen.append(message)
            if isinstance(message, AssistantMessage):
                await client.interrupt()
            if isinstance(message, ResultMessage):
                break
        assert last(seen).terminal_reason == "aborted_tools", last(seen)
        assert results(seen)[0].is_error
        assert last(await turn(client, "next")).result == "again"


@case(text("One."), text("Two."), text("Three."))
async def models_and_modes_are_switched(t):
    async with t.client(model="claude-opus-4-5") as client:
        assert init(await turn(client, "a"))["permissionMode"] == "default"
        await client.set_model("claude-sonnet-4-5")
        await client.set_permission_mode("acceptEdits")
        data = init(await turn(client, "b"))
        assert (data["model"], data["permissionMode"]) == ("claude-sonnet-4-5", "acceptEdits")
        await client.set_model(None)
        assert init(await turn(client, "c"))["model"] == "claude-opus-4-5"
        try:
            await client.set_permission_mode("nonsense")
            raise AssertionError("accepted")
        except Exception as error:
            assert "mode" in str(error)
    used = [it["model"] for it in await t.requests()]
    assert used == ["claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-4-5"], used


@case(text("ok"))
async def agents_are_listed(t):
    agents = {"reviewer": AgentDefinition(description="Reviews", prompt="Review.", tools=["Read"], model="sonnet")}
    async with t.client(agents=agents) as client:
        info = await client.get_server_info()
        assert {"name": "reviewer", "description": "Reviews", "model": "sonnet"} in info["agents"], info["agents"]
        assert "reviewer" in init(await turn(client, "go"))["agents"]


SETTINGS = {
    ".claude/settings.local.json": json.dumps({"outputStyle": "local-style", "permissions": {"deny": ["Bash"]}}),
    "CLAUDE.md": "The magic word is xyzzy.",
    ".claude/commands/hey.md": "---\ndescription: Says hey\n---\nSay hey to $ARGUMENTS",
}


@case(text("ok"), files=SETTINGS)
async def all_sources_of_settings(t):
    data = init(await t.run(setting_sources=["user", "project", "local"]))
    assert data["output_style"] == "local-style" and "hey" in data["slash_commands"] and "Bash" not in data["tools"]
    assert "xyzzy" in json.dumps(await t.requests())


@case(text("ok"), files=SETTINGS)
async def no_sources_of_settings(t):
    data = init(await t.run(setting_sources=[]))
    assert data["output_style"] == "default" and "hey" not in data["slash_commands"] and "Bash" in data["tools"]
    assert "xyzzy" not in json.dumps(await t.requests())


@case(text("ok"), files=SETTINGS)
async def the_user_alone(t):
    data = init(await t.run(setting_sources=["user"]))
    assert data["output_style"] == "default" and "hey" not in data["slash_commands"]


@case(text("ok"))
async def settings_as_text(t):
    data = init(await t.run(settings=json.dumps({"outputStyle": "mine"}), extra_args={"replay-user-messages": None}))
    assert data["output_style"] == "mine"


@case(text("ok"))
async def prompts_come_back(t):
    messages = await t.run("remember me", extra_args={"replay-user-messages": None})
    said = [it for it in users(messages) if it.content == "remember me" or "remember me" in str(it.content)]
    assert len(said) == 1 and said[0].uuid, users(messages)


@case(text("Hey!"), text("Summed up."), text("After."), files=SETTINGS)
async def commands_with_a_slash(t):
    async with t.client() as client:
        assert last(await turn(client, "/hey Bob")).result == "Hey!"
        assert "Say hey to Bob" in json.dumps((await t.requests())[0]["messages"])
        shown = await turn(client, "/context")
        assert "Context Usage" in last(shown).result and last(shown).num_turns == 0
        compacted = await turn(client, "/compact")
        boundary = systems(compacted, "compact_boundary")
        assert boundary[0]["compact_metadata"]["trigger"] == "manual"
        assert [it["status"] for it in systems(compacted, "status")] == ["compacting", None]
        before = init(compacted)["session_id"]
        cleared = await turn(client, "/clear")
        assert last(cleared).session_id != before
        assert last(await turn(client, "hello")).result == "After."
    messages = json.dumps((await t.requests())[-1]["messages"])
    assert "Summed up" not in messages and "Bob" not in messages


@case(text("ok"))
async def context_can_be_asked_for(t):
    async with t.client() as client:
        await turn(client, "go")
        usage = await client.get_context_usage()
        names = {it["name"] for it in usage["categories"]}
        assert {"Messages", "Free space"} <= names and 0 < usage["totalTokens"] < usage["maxTokens"], usage
        assert usage["percentage"] >= 0 and usage["model"]


@case(tool("Bash", command="echo first"), text("Done."))
async def what_is_said_meanwhile_is_heard(t):
    async with t.client(allowed_tools=["Bash"]) as client:
        await client.query("go")
        seen, more = [], False
        async for message in client.receive_messages():
            seen.append(message)
            if isinstance(message, AssistantMessage) and not more:
                more = True
                await client.query("and also this")
            if isinstance(message, ResultMessage):
                break
    # In the same turn or as the next one: it is never lost.
    assert more and last(seen).subtype == "success"
