"""Files in prompts, tasks in the background, fields of messages, hosts with many clients."""

import asyncio
import json
import os

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    create_sdk_mcp_server,
    list_sessions,
    query,
    tool as sdk_tool,
)
from claude_agent_sdk._internal.sessions import _parse_transcript_entries, _read_session_file

from harness import both, case, content, init, kinds, last, results, stall, systems, text, tool, turn, users, words

# Files that prompts name


def attached(t, session):
    """What the log says was attached, as programs read it."""
    os.environ["CLAUDE_CONFIG_DIR"] = os.path.join(t.home, ".claude")
    try:
        entries = _parse_transcript_entries(_read_session_file(session, t.ws))
    finally:
        del os.environ["CLAUDE_CONFIG_DIR"]
    return [it["attachment"] for it in entries if it["type"] == "attachment"]


def outside(t, words):
    path = os.path.join(t.home, "secret.txt")
    with open(path, "w") as file:
        file.write(words)
    return path


@case(text("ok"), text("again"), files={"notes.txt": "MARKER-1 is here\n", "dir/inner.txt": "x\n", "long.txt": "l\n" * 9})
async def files_in_prompts_are_attached(t):
    secret = outside(t, "MARKER-2\n")
    prompt = f"see @notes.txt, @{secret} and @dir and @long.txt#L2-3; not me@notes.txt or @nothing.txt"
    result = last(await t.run(prompt, tools=[]))
    found = attached(t, result.session_id)
    assert [it["type"] for it in found] == ["file", "file", "directory", "file"], found
    assert [it["filename"] for it in found[:2]] == [t.path("notes.txt"), secret], found
    assert "MARKER-1" in json.dumps(found[0]) and "MARKER-2" in json.dumps(found[1]) and "inner.txt" in json.dumps(found[2])
    said = json.dumps((await t.requests())[0]["messages"])
    assert prompt in json.loads(json.dumps(said)) and "MARKER-1" in said and "MARKER-2" in said and "inner.txt" in said
    assert "2\\tl" in said and "4\\tl" not in said, said
    # A session that goes on still holds them.
    await t.run("and now?", resume=result.session_id)
    assert "MARKER-2" in json.dumps((await t.requests())[1]["messages"])


@case(text("ok"), text("ok"))
async def prompts_may_be_taken_word_for_word(t):
    secret = outside(t, "MARKER-3\n")
    result = last(await t.run(f"/context @{secret}", verbatim_prompts=True))
    async with t.client(verbatim_prompts=True) as client:
        again = last(await turn(client, f"what is in @{secret}"))
    assert attached(t, result.session_id) == [] == attached(t, again.session_id)
    assert "MARKER-3" not in json.dumps(await t.requests()) and result.result == "ok"


@case(text("ok"), files={"secret.env": "MARKER-4\n", "ok.txt": "MARKER-5\n"})
async def rules_hold_for_files_in_prompts(t):
    settings = json.dumps({"permissions": {"deny": ["Read(./secret.env)"]}})
    await t.run("@secret.env @ok.txt", settings=settings)
    said = json.dumps(await t.requests())
    assert "MARKER-5" in said and "MARKER-4" not in said


@case(tool("Edit", file_path="$WS/a.txt", old_string="one", new_string="two"), text("ok"), files={"a.txt": "one\n"})
async def what_was_attached_counts_as_read(t):
    messages = await t.run("change @a.txt", permission_mode="acceptEdits")
    assert t.read("a.txt") == "two\n", results(messages)


# Tasks in the background

SLOW = tool("Bash", command="while [ ! -e go ]; do sleep 0.05; done; echo ready", run_in_background=True, description="Waits")


@case(SLOW, text("Begun."), text("Over."))
async def the_end_of_a_task_begins_a_turn(t):
    seen = []
    async with t.client(allowed_tools=["Bash"]) as client:
        await client.query("go")
        async for message in client.receive_messages():
            seen.append(message)
            if isinstance(message, ResultMessage):
                if message.result == "Over.":
                    break
                open(t.path("go"), "w").close()
    started = next(it for it in seen if isinstance(it, TaskStartedMessage))
    ended = next(it for it in seen if isinstance(it, TaskNotificationMessage))
    assert (started.task_id, started.description, started.task_type) == (ended.task_id, "Waits", "local_bash")
    assert ended.status == "completed" and ended.tool_use_id == started.tool_use_id and "Waits" in ended.summary
    with open(ended.output_file) as file:
        assert file.read() == "ready\n"
    output = next(it.tool_use_result for it in users(seen) if results([it]))
    assert output["backgroundTaskId"] == started.task_id
    assert [it.data["patch"]["status"] for it in seen if getattr(it, "subtype", "") == "task_updated"] == ["completed"]
    assert "ready" in json.dumps((await t.requests())[2]["messages"])
    assert len([it for it in seen if getattr(it, "subtype", "") == "init"]) == 2


@case(tool("Bash", command="sleep 0.7; echo late", run_in_background=True), text("Begun."), text("Over."))
async def the_end_of_input_waits_for_tasks(t):
    # A plain query ends its input at once.
    messages = await t.run("go", allowed_tools=["Bash"])
    assert [it.result for it in messages if isinstance(it, ResultMessage)] == ["Begun.", "Over."]


@case(tool("Bash", command="sleep 600", run_in_background=True), text("Begun."), text("Next."))
async def tasks_can_be_stopped(t):
    async with t.client(allowed_tools=["Bash"]) as client:
        begun = await turn(client, "go")
        task = next(it.task_id for it in begun if isinstance(it, TaskStartedMessage))
        await client.stop_task(task)
        await client.stop_task("nobody")
        after = await turn(client, "next")
    ended = [it for it in after if isinstance(it, TaskNotificationMessage)]
    assert [it.status for it in ended] == ["stopped"] and last(after).result == "Next.", after
    assert len(await t.requests()) == 3


# What messages carry


@case(text("Hello there."), text("Hello there."))
async def fields_of_messages(t):
    for more in ({}, {"include_partial_messages": True}):
        messages = await t.run(model="claude-sonnet-4-5", max_turns=1, **more)
        assert isinstance(messages[0], SystemMessage) and messages[0].subtype == "init"
        answer = next(it for it in messages if isinstance(it, AssistantMessage))
        assert answer.message_id.startswith("msg_") and answer.model == "claude-sonnet-4-5" and answer.session_id and answer.uuid
        assert answer.usage["input_tokens"] >= 0 and answer.usage["output_tokens"] >= 0
        result = last(messages)
        assert result.uuid and result.permission_denials == [] and result.stop_reason == "end_turn"
        costs = sum(it["costUSD"] for it in result.model_usage.values())
        assert abs(result.total_cost_usd - costs) < 1e-9 and result.model_usage["claude-sonnet-4-5"]["outputTokens"] > 0
        assert bool([it for it in messages if isinstance(it, StreamEvent)]) == bool(more)


@case({"reply": [{"thinking": "two and two is a sum that I know"}, {"text": "Four."}]})
async def thoughts_come_in_pieces(t):
    messages = await t.run(include_partial_messages=True, model="claude-sonnet-4-5", env={"MAX_THINKING_TOKENS": "8000"})
    deltas = [it.event["delta"] for it in messages if isinstance(it, StreamEvent) and it.event["type"] == "content_block_delta"]
    thoughts = [it["thinking"] for it in deltas if it["type"] == "thinking_delta"]
    assert len(thoughts) > 1 and "".join(thoughts) == "two and two is a sum that I know"
    assert any(it["type"] == "signature_delta" for it in deltas)
    assert (await t.requests())[0]["thinking"] == {"type": "enabled", "budget_tokens": 8000}


@case({"error": {"status": 404, "type": "not_found_error", "message": "bad thing: no such model"}})
async def the_text_of_an_error_reaches_the_program(t):
    seen = []
    try:
        async for message in query(prompt="hi", options=t.options(model="claude-not-a-model")):
            seen.append(message)
        raise AssertionError("no error")
    except Exception as error:
        assert str(error).startswith("Claude Code returned an error result: ") and last(seen).result in str(error), error
    assert last(seen).is_error and last(seen).subtype == "success" and "bad thing" in last(seen).result


@case(
    {"error": {"status": 529, "type": "overloaded_error", "message": "bad thing: busy"}},
    {"error": {"status": 429, "type": "rate_limit_error", "message": "bad thing: slow down"}},
    text("There."),
)
async def retries_are_told(t):
    messages = await t.run()
    told = systems(messages, "api_retry")
    assert [it["attempt"] for it in told] == [1, 2] and [it["error_status"] for it in told] == [529, 429], told
    assert [it["error"] for it in told] == ["overloaded", "rate_limit"]
    assert all(it["max_retries"] >= 2 and it["retry_delay_ms"] >= 0 for it in told)
    assert last(messages).result == "There."


@case(text("ok"))
async def nothing_is_kept_unasked(t):
    result = last(await t.run(extra_args={"no-session-persistence": None}))
    os.environ["CLAUDE_CONFIG_DIR"] = os.path.join(t.home, ".claude")
    try:
        assert result.session_id not in [it.session_id for it in list_sessions(directory=t.ws)]
    finally:
        del os.environ["CLAUDE_CONFIG_DIR"]


@case(tool("Nope", a=1), tool("Read"), tool("Read", file_path="$WS/a.txt", limit="many"), text("Done."), files={"a.txt": "x"})
async def wrong_calls_are_answered(t):
    messages = await t.run()
    assert [it.is_error for it in results(messages)] == [True, True, True] and last(messages).result == "Done."
    assert "Nope" in content(results(messages)[0]) and "file_path" in content(results(messages)[1])
    assert last(messages).permission_denials == [] and last(messages).num_turns == 4


# Hosts


@sdk_tool("echo", "Says it again", {"text": str})
async def echo(args):
    await asyncio.sleep(0.01)
    return {"content": [{"type": "text", "text": f"echo {args['text']}"}]}


@case(*[both(tool("mcp__e__echo", text="a"), tool("mcp__e__echo", text="b")), text("Done.")] * 8)
async def many_clients_at_once(t):
    async def one(n):
        server = create_sdk_mcp_server("e", tools=[echo])
        async with t.client(mcp_servers={"e": server}, allowed_tools=["mcp__e"]) as client:
            return await turn(client, f"client {n}")

    # The model plays one script for all: who gets which answer does not matter.
    done = await asyncio.gather(*(one(n) for n in range(4)))
    sessions = {last(it).session_id for it in done}
    assert len(sessions) == 4 and all(not last(it).is_error for it in done)


@case(text("ok"))
async def very_long_prompts(t):
    long = "x" * 500_000

    async def prompts():
        yield {"type": "user", "message": {"role": "user", "content": long}, "note": "y" * 2_000_000}

    assert last(await t.run(prompts())).result == "ok"
    assert (await t.requests())[0]["messages"][0]["content"][0]["text"] == long


@sdk_tool("much", "Says much", {})
async def much(args):
    return {"content": [{"type": "text", "text": "line of text\n" * 120_000}]}


@case(tool("mcp__m__much"), text("Done."))
async def very_long_results(t):
    server = create_sdk_mcp_server("m", tools=[much])
    messages = await t.run(mcp_servers={"m": server}, allowed_tools=["mcp__m"])
    shown = content(results(messages)[0])
    assert len(shown) < 200_000 and "line of text" in shown and last(messages).result == "Done."
    sent = json.dumps((await t.requests())[1]["messages"][-1])
    assert len(sent) < 200_000
    # All of it is somewhere, and the model is told where.
    path = next(word.strip("`.,;:)\"'") for word in shown.replace("\\n", " ").split() if word.startswith("/") and "tool-results" in word)
    with open(path) as file:
        assert file.read().count("line of text") == 120_000


@case(tool("Bash", command="sleep 600 & echo $! > pid; wait"))
async def who_leaves_early_leaves_nothing_behind(t):
    async with t.client(allowed_tools=["Bash"], permission_mode="acceptEdits") as client:
        await client.query("go")
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage):
                while not (t.has("pid") and t.read("pid").strip()):
                    await asyncio.sleep(0.02)
                break
    pid = int(t.read("pid"))

    def lives():
        try:
            with open(f"/proc/{pid}/stat") as file:
                return ") Z" not in file.read()
        except OSError:
            return False

    for _ in range(6000):
        if not lives():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the command still runs")
