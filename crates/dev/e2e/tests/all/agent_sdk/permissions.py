"""Questions, hooks, tools of the program, typed outputs."""

import asyncio
import json

from claude_agent_sdk import (
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    ToolPermissionContext,
    UserMessage,
    create_sdk_mcp_server,
    tool as sdk_tool,
)

from harness import both, case, content, init, last, results, systems, text, tool, turn, users, words


def write(name, words="x"):
    return tool("Write", file_path=f"$WS/{name}", content=words)


@case(write("a.txt", "model"), text("Done."))
async def a_yes_may_rewrite(t):
    asked = []

    async def can(name, data, context):
        asked.append((name, data["file_path"], context))
        return PermissionResultAllow(updated_input={**data, "content": "host"})

    async with t.client(can_use_tool=can) as client:
        await turn(client, "go")
    name, path, context = asked[0]
    assert (name, path) == ("Write", t.path("a.txt")) and t.read("a.txt") == "host"
    assert isinstance(context, ToolPermissionContext) and context.suggestions and context.tool_use_id
    assert any(it.type == "setMode" and it.mode == "acceptEdits" for it in context.suggestions), context.suggestions


@case(write("a.txt"), write("b.txt"), text("Done."))
async def suggestions_can_be_taken(t):
    asked = []

    async def can(name, data, context):
        asked.append(data["file_path"])
        return PermissionResultAllow(updated_permissions=[it for it in context.suggestions if it.type == "setMode"])

    async with t.client(can_use_tool=can) as client:
        messages = await turn(client, "go")
    assert len(asked) == 1 and t.has("b.txt"), asked
    assert any(it.get("permissionMode") == "acceptEdits" for it in systems(messages, "status"))


@case(tool("Bash", command="touch a"), tool("Bash", command="touch b"), text("Done."))
async def rules_can_be_added(t):
    asked = []

    async def can(name, data, context):
        asked.append(data["command"])
        rule = PermissionUpdate(type="addRules", rules=[], behavior="allow", destination="session")
        from claude_agent_sdk.types import PermissionRuleValue

        rule.rules = [PermissionRuleValue(tool_name="Bash", rule_content="touch:*")]
        return PermissionResultAllow(updated_permissions=[rule])

    async with t.client(can_use_tool=can) as client:
        await turn(client, "go")
    assert asked == ["touch a"] and t.has("a") and t.has("b")


@case(write("a.txt"), text("Fine."))
async def a_no_is_told(t):
    async def can(name, data, context):
        return PermissionResultDeny(message="not in this house")

    async with t.client(can_use_tool=can) as client:
        messages = await turn(client, "go")
    result = results(messages)[0]
    assert result.is_error and "not in this house" in content(result) and not t.has("a.txt")
    denial = last(messages).permission_denials[0]
    assert denial["tool_name"] == "Write" and last(messages).result == "Fine."


@case(both(write("a.txt"), write("b.txt")), text("never"))
async def a_no_may_end_the_turn(t):
    async def can(name, data, context):
        return PermissionResultDeny(message="stop", interrupt=True)

    async with t.client(can_use_tool=can) as client:
        messages = await turn(client, "go")
    assert last(messages).subtype == "error_during_execution" and last(messages).terminal_reason == "aborted_tools"
    assert len(results(messages)) == 2 and "doesn't want to proceed" in content(results(messages)[0])
    assert any("interrupted by user for tool use" in str(it.content) for it in users(messages))
    assert len(await t.requests()) == 1


@case(write("a.txt"), text("Fine."))
async def a_host_that_raises_is_no_yes(t):
    async def can(name, data, context):
        raise RuntimeError("boom")

    async with t.client(can_use_tool=can) as client:
        messages = await turn(client, "go")
    assert results(messages)[0].is_error and "boom" in content(results(messages)[0]) and not t.has("a.txt")


@case(write("a.txt"), text("Fine."))
async def nobody_to_ask(t):
    messages = await t.run()
    assert results(messages)[0].is_error and not t.has("a.txt")
    assert systems(messages, "permission_denied")[0]["tool_name"] == "Write"
    assert len(last(messages).permission_denials) == 1


@case(write("a.txt"), tool("Bash", command="touch b"), text("Fine."))
async def edits_are_accepted(t):
    messages = await t.run(permission_mode="acceptEdits")
    assert t.has("a.txt") and not results(messages)[0].is_error


@case(write("a.txt"), text("Fine."))
async def plans_change_nothing(t):
    await t.run(permission_mode="plan")
    assert not t.has("a.txt")


@case(write("a.txt"), text("Fine."))
async def nobody_is_asked_when_nobody_may_be(t):
    asked = []

    async def can(name, data, context):
        asked.append(name)
        return PermissionResultAllow()

    async with t.client(can_use_tool=can, permission_mode="dontAsk") as client:
        await turn(client, "go")
    assert asked == [] and not t.has("a.txt")


@case(write("a.txt"), tool("Bash", command="touch b"), text("Fine."))
async def everything_is_allowed(t):
    await t.run(permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
    assert t.has("a.txt") and t.has("b")


@case(tool("Bash", command="touch a && rm -rf b"), tool("Bash", command="touch c"), text("Fine."))
async def every_part_of_a_command_counts(t):
    messages = await t.run(allowed_tools=["Bash(touch:*)"])
    first, second = results(messages)
    assert first.is_error and not second.is_error and t.has("c") and not t.has("a")


# Hooks


def hooked(seen, answers=None):
    """A callback that remembers what it was told."""

    async def hook(data, tool_use_id, context):
        seen.append(data)
        answer = (answers or {}).get(data["hook_event_name"], {})
        return answer(data) if callable(answer) else answer

    return hook


EVENTS = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop"]


@case(both(tool("Bash", command="echo hi"), tool("Read", file_path="$WS/nothing")), text("Done."))
async def every_event_is_told(t):
    seen = []
    hooks = {event: [HookMatcher(hooks=[hooked(seen)])] for event in EVENTS}
    async with t.client(hooks=hooks) as client:
        await turn(client, "the prompt")
    names = [it["hook_event_name"] for it in seen]
    assert sorted(set(names)) == sorted(EVENTS), names
    told = {it["hook_event_name"]: it for it in seen}
    assert told["UserPromptSubmit"]["prompt"] == "the prompt"
    assert told["PostToolUse"]["tool_response"]["stdout"].strip() == "hi" and told["PostToolUse"]["duration_ms"] >= 0
    assert told["PostToolUseFailure"]["error"] and told["PostToolUseFailure"]["is_interrupt"] is False
    assert told["Stop"]["stop_hook_active"] is False and told["Stop"]["last_assistant_message"] == "Done."
    for it in seen:
        assert it["session_id"] and it["cwd"] == t.ws and it["transcript_path"].endswith(".jsonl")


@case(both(tool("Bash", command="echo 1"), tool("Read", file_path="$WS/x"), tool("Glob", pattern="*")), text("Done."))
async def matchers_choose(t):
    seen = {}

    def matcher(pattern):
        seen[pattern] = []

        async def hook(data, tool_use_id, context):
            seen[pattern].append(data["tool_name"])
            return {}

        return HookMatcher(matcher=pattern, hooks=[hook])

    patterns = [None, "", "*", "Bash", "bash", "ash", "Bash|Read", "Bash, Read", "^Re", "e.d", "G.*b", "Write"]
    await t.run(hooks={"PreToolUse": [matcher(it) for it in patterns]}, tools=["Bash", "Read", "Glob"])
    every = ["Bash", "Glob", "Read"]
    want = {
        None: every, "": every, "*": every, "Bash": ["Bash"], "bash": [], "ash": [], "Bash|Read": ["Bash", "Read"],
        "Bash, Read": ["Bash", "Read"], "^Re": ["Read"], "e.d": ["Read"], "G.*b": ["Glob"], "Write": [],
    }
    got = {pattern: sorted(names) for pattern, names in seen.items()}
    assert got == want, got


def decide(decision, **more):
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}}


@case(tool("Bash", command="touch a"), text("Done."))
async def a_hook_denies(t):
    seen = []
    hooks = {"PreToolUse": [HookMatcher(hooks=[hooked(seen, {"PreToolUse": decide("deny", permissionDecisionReason="no touching")})])]}
    messages = await t.run(hooks=hooks, allowed_tools=["Bash"])
    assert "no touching" in content(results(messages)[0]) and not t.has("a")
    assert len(last(messages).permission_denials) == 1


@case(tool("Bash", command="touch a"), text("Done."))
async def a_hook_allows_and_rewrites(t):
    answer = decide("allow", updatedInput={"command": "touch b"})
    await t.run(hooks={"PreToolUse": [HookMatcher(hooks=[hooked([], {"PreToolUse": answer})])]})
    assert t.has("b") and not t.has("a")


@case(tool("Bash", command="touch a"), text("Done."))
async def a_hook_asks(t):
    asked = []

    async def can(name, data, context):
        asked.append(name)
        return PermissionResultAllow()

    answer = decide("ask", permissionDecisionReason="look at this")
    hooks = {"PreToolUse": [HookMatcher(hooks=[hooked([], {"PreToolUse": answer})])]}
    async with t.client(hooks=hooks, can_use_tool=can, allowed_tools=["Bash"]) as client:
        await turn(client, "go")
    assert asked == ["Bash"] and t.has("a")


@case(write("a.txt"), text("Later."))
async def a_call_is_deferred(t):
    hooks = {"PreToolUse": [HookMatcher(matcher="Write", hooks=[hooked([], {"PreToolUse": decide("defer")})])]}
    result = last(await t.run(hooks=hooks))
    assert result.terminal_reason == "tool_deferred" and result.stop_reason == "tool_deferred"
    assert result.deferred_tool_use.name == "Write" and result.deferred_tool_use.input["file_path"] == t.path("a.txt")
    assert result.permission_denials == [] and not t.has("a.txt")


@case(tool("Bash", command="echo hi"), text("Done."))
async def context_and_words_of_hooks(t):
    answers = {
        "PreToolUse": {"systemMessage": "heads up"},
        "PostToolUse": {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "context-after"}},
        "UserPromptSubmit": {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "context-before"}},
    }
    hooks = {event: [HookMatcher(hooks=[hooked([], answers)])] for event in answers}
    messages = await t.run(hooks=hooks)
    first, second = await t.requests()
    assert "context-before" in json.dumps(first) and "context-after" in json.dumps(second)
    told = [it["content"] for it in systems(messages, "informational")]
    assert told == ["PreToolUse:Bash says: heads up"], told
    assert len(users(messages)) == 1, users(messages)


@case(text("never"))
async def a_prompt_is_blocked(t):
    answers = {"UserPromptSubmit": {"decision": "block", "reason": "bad words"}}
    messages = await t.run("rude", hooks={"UserPromptSubmit": [HookMatcher(hooks=[hooked([], answers)])]})
    assert "bad words" in last(messages).result and last(messages).num_turns == 0 and await t.requests() == []


@case(tool("Bash", command="echo hi"), text("never"))
async def a_hook_ends_the_turn(t):
    answers = {"PostToolUse": {"continue_": False, "stopReason": "enough"}}
    result = last(await t.run(hooks={"PostToolUse": [HookMatcher(hooks=[hooked([], answers)])]}))
    assert result.terminal_reason == "hook_stopped" and result.result == "" and not result.is_error
    assert len(await t.requests()) == 1


@case(text("One."), text("Two."))
async def a_hook_keeps_it_going(t):
    seen = []
    once = lambda data: {} if data["stop_hook_active"] else {"decision": "block", "reason": "not yet"}
    messages = await t.run(hooks={"Stop": [HookMatcher(hooks=[hooked(seen, {"Stop": once})])]})
    assert words(messages) == ["One.", "Two."] and [it["stop_hook_active"] for it in seen] == [False, True]
    assert "not yet" in json.dumps((await t.requests())[1]["messages"])


@case(tool("Bash", command="touch a"), text("Done."))
async def a_hook_that_raises_is_reported(t):
    async def hook(data, tool_use_id, context):
        raise RuntimeError("boom")

    messages = await t.run(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]}, allowed_tools=["Bash"])
    assert [it["tag"] for it in systems(messages, "informational")] == ["hook_callback_failed"]
    assert t.has("a")
    t.stderr.clear()


@case(tool("Bash", command="touch a"), text("Done."))
async def a_hook_that_hangs_keeps_the_call_from_running(t):
    async def hook(data, tool_use_id, context):
        await asyncio.sleep(60)

    messages = await t.run(hooks={"PreToolUse": [HookMatcher(hooks=[hook], timeout=0.5)]}, allowed_tools=["Bash"])
    assert results(messages)[0].is_error and not t.has("a")


COMMAND_HOOKS = json.dumps({"hooks": {
    "SessionStart": [{"hooks": [{"type": "command", "command": "echo session-context"}]}],
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo refused >&2; exit 2"}]}],
}})


@case(tool("Bash", command="touch a"), text("Done."))
async def command_hooks_of_settings(t):
    messages = await t.run(settings=COMMAND_HOOKS, allowed_tools=["Bash"], extra_args={"include-hook-events": None})
    assert "session-context" in json.dumps((await t.requests())[0]["messages"])
    assert "refused" in content(results(messages)[0]) and not t.has("a")
    started = [getattr(it, "hook_event_name", None) or it.data["hook_event"] for it in messages if getattr(it, "subtype", "") == "hook_started"]
    assert started == ["SessionStart", "PreToolUse"], started


# Tools of the program


@sdk_tool("add", "Adds", {"a": float, "b": float})
async def add(args):
    return {"content": [{"type": "text", "text": str(args["a"] + args["b"])}]}


@sdk_tool("fail", "Fails", {})
async def fail(args):
    raise ValueError("on purpose")


@sdk_tool("refuse", "Says that it failed", {})
async def refuse(args):
    return {"content": [{"type": "text", "text": "will not"}], "is_error": True}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@sdk_tool("picture", "Makes a picture", {})
async def picture(args):
    return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}


CALC = {"calc": create_sdk_mcp_server("calc", "1.0.0", tools=[add, fail, refuse, picture])}


@case(
    both(tool("mcp__calc__add", a=1, b=2), tool("mcp__calc__fail"), tool("mcp__calc__refuse"), tool("mcp__calc__picture")),
    text("Done."),
)
async def tools_of_the_program(t):
    async with t.client(mcp_servers=CALC, allowed_tools=["mcp__calc__*"]) as client:
        messages = await turn(client, "go")
        status = (await client.get_mcp_status())["mcpServers"][0]
    data = init(messages)
    assert data["mcp_servers"][0]["name"] == "calc" and data["mcp_servers"][0]["status"] == "connected"
    assert "mcp__calc__add" in data["tools"]
    good, raised, refused, shown = results(messages)
    assert "3" in content(good) and not good.is_error
    assert raised.is_error and "on purpose" in content(raised) and refused.is_error and "will not" in content(refused)
    assert shown.content[0]["type"] == "image" and shown.content[0]["source"]["data"] == PIXEL
    outputs = [it.tool_use_result for it in users(messages)]
    assert good.content == [{"type": "text", "text": "3"}] == outputs[0], (good.content, outputs[0])
    assert status["serverInfo"]["name"] == "calc" and {it["name"] for it in status["tools"]} >= {"add", "fail"}


@case(tool("mcp__calc__add", a=1, b=2), text("Done."))
async def tools_of_the_program_need_permission(t):
    messages = await t.run(mcp_servers=CALC)
    assert results(messages)[0].is_error and last(messages).permission_denials[0]["tool_name"] == "mcp__calc__add"


@case(text("Done."), text("Done."))
async def servers_are_switched(t):
    async with t.client(mcp_servers=CALC) as client:
        assert "mcp__calc__add" in init(await turn(client, "a"))["tools"]
        await client.toggle_mcp_server("calc", False)
        assert "mcp__calc__add" not in init(await turn(client, "b"))["tools"]
        await client.toggle_mcp_server("calc", True)
        assert (await client.get_mcp_status())["mcpServers"][0]["status"] == "connected"
        await client.reconnect_mcp_server("calc")
        assert (await client.get_mcp_status())["mcpServers"][0]["status"] == "connected"
        try:
            await client.reconnect_mcp_server("nobody")
            raise AssertionError("found")
        except Exception as error:
            assert "Server not found: nobody" in str(error), error


@case(text("Done."))
async def a_broken_server_stops_nobody(t):
    servers = {"gone": {"command": "/no/such/program", "args": []}}
    messages = await t.run(mcp_servers=servers)
    assert init(messages)["mcp_servers"][0]["status"] == "failed" and last(messages).result == "Done."


# Typed outputs

FILES = {"a.txt": "one\ntwo\nthree\n", "nb.ipynb": json.dumps({
    "cells": [{"cell_type": "code", "id": "c1", "source": ["print(1)"], "metadata": {}, "outputs": [], "execution_count": None}],
    "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5,
})}


@case(
    tool("Read", file_path="$WS/a.txt"),
    tool("Write", file_path="$WS/new.txt", content="new\n"),
    tool("Edit", file_path="$WS/a.txt", old_string="two", new_string="2"),
    tool("Bash", command="echo out; echo err >&2"),
    tool("Bash", command="exit 3"),
    tool("Glob", pattern="*.txt"),
    tool("Grep", pattern="one", output_mode="content"),
    tool("Grep", pattern="one", output_mode="count"),
    tool("Grep", pattern="one"),
    tool("TodoWrite", todos=[{"content": "Work", "status": "pending", "activeForm": "Working"}]),
    tool("Read", file_path="$WS/nb.ipynb"),
    tool("NotebookEdit", notebook_path="$WS/nb.ipynb", cell_id="c1", new_source="print(2)"),
    tool("Read", file_path="$WS/nothing.txt"),
    text("Done."),
    files=FILES,
)
async def outputs_have_the_shape_programs_know(t):
    tools = ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite", "NotebookEdit"]
    messages = await t.run(permission_mode="acceptEdits", allowed_tools=["Bash"], tools=tools)
    outputs = [it.tool_use_result for it in users(messages)]
    read, wrote, edited, ran, failed, globbed, lines, counted, files, todos, notebook, cell, missing = outputs
    file = read["file"]
    assert read["type"] == "text" and file["content"].startswith("one\ntwo") and file["filePath"] == t.path("a.txt")
    assert (file["startLine"], file["numLines"]) == (1, file["totalLines"]), file
    assert wrote["type"] == "create" and wrote["originalFile"] is None and wrote["content"] == "new\n", wrote
    assert wrote["filePath"] == t.path("new.txt") and wrote["structuredPatch"] == []
    assert edited["oldString"] == "two" and edited["newString"] == "2" and edited["replaceAll"] is False
    assert edited["originalFile"] == "one\ntwo\nthree\n" and edited["userModified"] is False
    hunk = edited["structuredPatch"][0]
    assert set(hunk) >= {"oldStart", "oldLines", "newStart", "newLines", "lines"} and "-two" in hunk["lines"], hunk
    assert ran["stdout"].strip() == "out" and ran["stderr"].strip() == "err" or "err" in ran["stdout"], ran
    assert ran["interrupted"] is False and ran["isImage"] is False, ran
    assert isinstance(failed, str) and failed.startswith("Error: ") and "3" in failed, failed
    assert globbed["numFiles"] == 2 == len(globbed["filenames"]) and globbed["truncated"] is False, globbed
    assert lines["mode"] == "content" and "one" in lines["content"] and lines["numLines"] == 1, lines
    assert counted["mode"] == "count" and counted["numMatches"] >= 1, counted
    assert files["mode"] == "files_with_matches" and files["numFiles"] >= 1 and files["filenames"], files
    assert todos["oldTodos"] == [] and todos["newTodos"][0]["activeForm"] == "Working", todos
    assert notebook["type"] == "notebook" and notebook["file"]["cells"], notebook
    assert cell["new_source"] == "print(2)" and cell["edit_mode"] == "replace" and cell["cell_type"] == "code", cell
    assert cell["notebook_path"] == t.path("nb.ipynb") and cell["original_file"] and cell["updated_file"], cell
    assert isinstance(missing, str) and missing.startswith("Error: "), missing
