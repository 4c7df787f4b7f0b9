"""Sessions, checkpoints, stores, extensions."""

import json
import os
import uuid

from claude_agent_sdk import (
    HookMatcher,
    InMemorySessionStore,
    ResultError,
    ProcessError,
    ResultMessage,
    UserMessage,
    get_session_messages,
    list_sessions,
    list_sessions_from_store,
    query,
)

from harness import both, case, content, init, last, results, text, tool, turn, users, words


def said(request):
    return json.dumps(request["messages"])


@case(text("One."), text("Two."), text("Three."), text("Four."))
async def sessions_go_on(t):
    first = await t.result("alpha")
    second = await t.result("beta", resume=first.session_id)
    assert second.session_id == first.session_id
    forked = await t.result("gamma", resume=first.session_id, fork_session=True)
    assert forked.session_id != first.session_id
    third = await t.result("delta", continue_conversation=True)
    assert third.session_id in (first.session_id, forked.session_id)
    requests = await t.requests()
    assert "alpha" in said(requests[1]) and "One." in said(requests[1]) and "beta" in said(requests[1])
    assert "beta" in said(requests[2]) and "gamma" in said(requests[2]) and "delta" in said(requests[3])
    assert second.total_cost_usd > first.total_cost_usd


@case(text("ok"))
async def continuing_nothing_begins(t):
    assert (await t.result(continue_conversation=True)).result == "ok"


@case(text("ok"))
async def sessions_are_named(t):
    name = str(uuid.uuid4())
    assert (await t.result(session_id=name)).session_id == name
    try:
        await t.run(session_id=name)
        raise AssertionError("used twice")
    except ProcessError:
        assert any("already in use" in line for line in t.stderr), t.stderr
    t.stderr.clear()


@case()
async def unknown_sessions_are_errors(t):
    try:
        await t.run(resume=str(uuid.uuid4()))
        raise AssertionError("resumed")
    except Exception as error:
        assert "No conversation found with session ID" in str(error), error
    t.stderr.clear()


@case(text("One."), text("Two."), text("Three."), text("Four."))
async def sessions_are_cut(t):
    first = await t.run("alpha")
    await t.run("beta", resume=last(first).session_id)
    at = next(it.uuid for it in first if type(it).__name__ == "AssistantMessage")
    session = last(first).session_id
    await t.run("gamma", resume=session, extra_args={"resume-session-at": at})
    requests = await t.requests()
    assert "alpha" in said(requests[2]) and "beta" not in said(requests[2]) and "gamma" in said(requests[2])
    # What was left behind stays behind.
    await t.run("delta", resume=session)
    requests = await t.requests()
    assert "gamma" in said(requests[3]) and "beta" not in said(requests[3])


@case(tool("Bash", command="echo hi"), text("Done."))
async def logs_can_be_read(t):
    messages = await t.run("the first prompt")
    session = last(messages).session_id
    os.environ["CLAUDE_CONFIG_DIR"] = os.path.join(t.home, ".claude")
    try:
        found = list_sessions(directory=t.ws)
        log = get_session_messages(session, directory=t.ws)
    finally:
        del os.environ["CLAUDE_CONFIG_DIR"]
    assert [it.session_id for it in found] == [session] and found[0].first_prompt == "the first prompt", found
    assert [it.type for it in log] == ["user", "assistant", "user", "assistant"], log
    wire = [it.uuid for it in messages if getattr(it, "uuid", None) and type(it).__name__ != "ResultMessage"]
    assert {it.uuid for it in log} >= set(wire), (wire, [it.uuid for it in log])


@case(text("One."), text("Two."))
async def stores_are_fed_and_read(t):
    store, env = InMemorySessionStore(), {"CLAUDE_CONFIG_DIR": os.path.join(t.home, ".claude")}
    first = await t.result("alpha", session_store=store, env=env)
    again = await t.result("beta", session_store=store, resume=first.session_id, env=env)
    assert again.session_id == first.session_id
    assert "alpha" in said((await t.requests())[1]) and "One." in said((await t.requests())[1])
    found = await list_sessions_from_store(store, directory=t.ws)
    assert [it.session_id for it in found] == [first.session_id] and found[0].first_prompt == "alpha", found


@case(
    both(tool("Read", file_path="$WS/old.txt"), tool("Write", file_path="$WS/new.txt", content="new")),
    tool("Edit", file_path="$WS/old.txt", old_string="before", new_string="after"),
    text("Done."),
    tool("Write", file_path="$WS/more.txt", content="more"),
    text("Done."),
    files={"old.txt": "before\n"},
)
async def files_go_back(t):
    options = {"permission_mode": "acceptEdits", "enable_file_checkpointing": True}
    async with t.client(**options, extra_args={"replay-user-messages": None}) as client:
        first = next(it.uuid for it in users(await turn(client, "one")) if not results([it]))
        second = next(it.uuid for it in users(await turn(client, "two")) if not results([it]))
        assert t.read("old.txt") == "after\n" and t.has("new.txt") and t.has("more.txt")
        await client.rewind_files(second)
        assert not t.has("more.txt") and t.has("new.txt")
        await client.rewind_files(first)
        assert not t.has("new.txt") and t.read("old.txt") == "before\n"
        try:
            await client.rewind_files(str(uuid.uuid4()))
            raise AssertionError("rewound")
        except Exception as error:
            assert "No file checkpoint found" in str(error), error


@case(text("ok"))
async def files_do_not_go_back_unasked(t):
    async with t.client() as client:
        await turn(client, "one")
        try:
            await client.rewind_files(str(uuid.uuid4()))
            raise AssertionError("rewound")
        except Exception as error:
            assert "File rewinding is not enabled." in str(error), error


@case(tool("Bash", command="touch ran"), text("Was denied."))
async def a_deferred_call_is_taken_up(t):
    def answering(decision):
        async def hook(data, tool_use_id, context):
            asked.append((decision, tool_use_id))
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}

        return {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[hook])]}

    async def nothing():
        if False:
            yield {}

    asked = []
    first = await t.result(hooks=answering("defer"), allowed_tools=["Bash"])
    assert first.stop_reason == "tool_deferred" and not t.has("ran")
    resumed = await t.result(nothing(), hooks=answering("deny"), allowed_tools=["Bash"], resume=first.session_id)
    assert not resumed.is_error and not t.has("ran") and resumed.result == "Was denied."
    assert asked == [("defer", first.deferred_tool_use.id), ("deny", first.deferred_tool_use.id)], asked


PLUGIN = {
    "plug/.claude-plugin/plugin.json": json.dumps({"name": "plug", "version": "1.0.0"}),
    "plug/commands/hey.md": "---\ndescription: Says hey\n---\nPlugged hey to $ARGUMENTS",
    ".claude/skills/haiku/SKILL.md": "---\nname: haiku\ndescription: Writes haiku\n---\nFive, seven, five.",
    ".claude/skills/other/SKILL.md": "---\nname: other\ndescription: Something else\n---\nNothing.",
}


@case(text("Hey!"), files=PLUGIN)
async def plugins_bring_commands(t):
    messages = await t.run("/plug:hey Ann", plugins=[{"type": "local", "path": t.path("plug")}])
    data = init(messages)
    assert any(it["name"] == "plug" and it["path"] == t.path("plug") for it in data["plugins"]), data["plugins"]
    assert "plug:hey" in data["slash_commands"] and "Plugged hey to Ann" in said((await t.requests())[0])


@case(tool("Skill", skill="haiku"), text("Done."), files=PLUGIN)
async def skills_are_used(t):
    messages = await t.run(skills=["haiku"], setting_sources=["project"])
    assert "haiku" in init(messages)["skills"]
    output = next(it.tool_use_result for it in users(messages) if results([it]))
    assert output["success"] is True and output["commandName"] == "haiku", output
    assert content(results(messages)[0]) == "Launching skill: haiku"
    assert "Five, seven, five." in said((await t.requests())[1])
