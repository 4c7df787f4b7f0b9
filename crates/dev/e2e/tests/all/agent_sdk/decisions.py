"""Who decides about a call, and what becomes of callbacks that misbehave; output that must follow a schema."""

import asyncio
import json

from claude_agent_sdk import (
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ResultError,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool as sdk_tool,
)

from harness import both, case, content, init, last, results, systems, text, tool, turn, users, words

TOUCH = tool("Bash", command="touch made")


def hook_says(decision):
    async def hook(data, tool_use_id, context):
        output = {"hookEventName": "PreToolUse"}
        if decision:
            output |= {"permissionDecision": decision, "permissionDecisionReason": "the hook says so"}
        return {"hookSpecificOutput": output}

    return {"PreToolUse": [HookMatcher(hooks=[hook])]}


# Deny rule, hook, allow rule, mode -> is the callback asked, and does the call run when it says yes?
TABLE = [
    (dict(), True, True),
    (dict(allowed_tools=["Bash"]), False, True),
    (dict(allowed_tools=["Bash(touch:*)"]), False, True),
    (dict(allowed_tools=["Bash(rm:*)"]), True, True),
    (dict(disallowed_tools=["Bash(touch:*)"]), False, False),
    (dict(disallowed_tools=["Bash(touch:*)"], allowed_tools=["Bash"]), False, False),
    (dict(hooks=hook_says("allow")), False, True),
    (dict(hooks=hook_says("deny")), False, False),
    (dict(hooks=hook_says("ask")), True, True),
    (dict(hooks=hook_says(None)), True, True),
    (dict(hooks=hook_says("ask"), allowed_tools=["Bash"]), True, True),
    (dict(hooks=hook_says("deny"), allowed_tools=["Bash"]), False, False),
    (dict(hooks=hook_says("allow"), disallowed_tools=["Bash(touch:*)"]), False, False),
    (dict(permission_mode="dontAsk"), False, False),
    (dict(permission_mode="dontAsk", allowed_tools=["Bash"]), False, True),
    (dict(permission_mode="plan"), None, False),
    (dict(permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"}), False, True),
    (dict(permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"}, disallowed_tools=["Bash(touch:*)"]), False, False),
]


def row(number, more, asks, runs):
    async def check(t):
        asked = []

        async def can(name, data, context):
            asked.append((name, context.decision_reason))
            return PermissionResultAllow()

        # A one-shot prompt: no stream and no dummy hook is needed for the callback.
        messages = await t.run("go", can_use_tool=can, **more)
        if asks is not None:
            assert bool(asked) == asks and len(asked) <= 1, (asked, results(messages))
            assert t.has("made") == runs, results(messages)
        else:
            assert not t.has("made") or asked, results(messages)
        if not t.has("made"):
            assert results(messages)[0].is_error and len(last(messages).permission_denials) == 1
        if asked and "hooks" in more and asked[0][1]:
            assert "the hook says so" in asked[0][1] or not more.get("allowed_tools"), asked

    check.__name__ = f"who_decides_{number}"
    case(TOUCH, text("Done."))(check)


for number, (more, asks, runs) in enumerate(TABLE):
    row(number, more, asks, runs)


# Callbacks that misbehave: the call is denied, the model is told why, nothing loops.


def misbehaves(label, callback, words):
    async def check(t):
        messages = await t.run("go", can_use_tool=callback)
        result = results(messages)[0]
        assert result.is_error and not t.has("made") and words in content(result), content(result)
        assert len(results(messages)) == 1 and last(messages).result == "Done."
        assert len(last(messages).permission_denials) <= 1
        t.stderr.clear()

    check.__name__ = f"a_callback_that_{label}"
    case(TOUCH, text("Done."))(check)


async def wrong_signature():
    return PermissionResultAllow()


async def returns_nothing(name, data, context):
    return None


async def returns_a_string(name, data, context):
    return "allow"


async def returns_no_object(name, data, context):
    return PermissionResultAllow(updated_input="touch other")


async def writes_a_wrong_input(name, data, context):
    return PermissionResultAllow(updated_input={"command": 7})


misbehaves("has_a_wrong_signature", wrong_signature, "wrong_signature")
misbehaves("returns_nothing", returns_nothing, "permission")
misbehaves("returns_a_string", returns_a_string, "permission")
misbehaves("returns_no_object", returns_no_object, "updatedInput")
misbehaves("writes_a_wrong_input", writes_a_wrong_input, "command")


@case(TOUCH, text("Done."))
async def an_empty_rewrite_changes_nothing(t):
    async def can(name, data, context):
        return PermissionResultAllow(updated_input={})

    await t.run(can_use_tool=can)
    assert t.has("made")


@case(tool("Bash", command="touch made"), text("Next."))
async def a_callback_may_take_its_time_and_be_cancelled(t):
    begun, cancelled = asyncio.Event(), []

    async def can(name, data, context):
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return PermissionResultAllow()

    async with t.client(can_use_tool=can) as client:
        await client.query("go")
        await begun.wait()
        await client.interrupt()
        messages = [it async for it in client.receive_response()]
        assert last(messages).terminal_reason == "aborted_tools" and not t.has("made")
        for _ in range(200):
            if cancelled:
                break
            await asyncio.sleep(0.02)
        assert cancelled == ["Bash"]
        assert last(await turn(client, "next")).result == "Next."


@case(tool("Read", file_path="/etc/hostname"), text("Done."))
async def paths_outside_are_asked_about(t):
    asked = []

    async def can(name, data, context):
        asked.append((name, context.blocked_path))
        return PermissionResultDeny(message="stay here")

    messages = await t.run(can_use_tool=can)
    assert asked == [("Read", "/etc/hostname")], asked
    assert content(results(messages)[0]) == "stay here"
    assert users(messages)[0].tool_use_result == "Error: stay here"


@case(tool("Read", file_path="/etc/hostname"), text("Done."))
async def directories_can_be_added(t):
    messages = await t.run(add_dirs=["/etc"])
    assert not results(messages)[0].is_error and last(messages).permission_denials == []


# A tool that answers permission questions


@sdk_tool("approve", "Decides", {"tool_name": str, "input": dict, "tool_use_id": str})
async def approve(args):
    answer = {"behavior": "deny", "message": "the tool says no"}
    if args["tool_name"] == "Write":
        answer = {"behavior": "allow", "updatedInput": {**args["input"], "content": "approved"}}
    return {"content": [{"type": "text", "text": json.dumps(answer)}]}


@sdk_tool("broken", "Decides nothing", {})
async def broken(args):
    return {"content": [{"type": "text", "text": "yes, of course"}]}


AUTH = {"auth": create_sdk_mcp_server("auth", tools=[approve, broken])}


@case(tool("Write", file_path="$WS/a.txt", content="x"), TOUCH, text("Done."))
async def a_tool_may_answer_for_the_host(t):
    messages = await t.run(mcp_servers=AUTH, permission_prompt_tool_name="mcp__auth__approve")
    assert t.read("a.txt") == "approved" and not t.has("made")
    assert content(results(messages)[1]) == "the tool says no"
    assert [it["tool_name"] for it in last(messages).permission_denials] == ["Bash"]


@case(TOUCH, text("Done."))
async def a_tool_that_answers_nonsense_is_no_yes(t):
    messages = await t.run(mcp_servers=AUTH, permission_prompt_tool_name="mcp__auth__broken")
    assert results(messages)[0].is_error and not t.has("made")


@case(TOUCH, text("Done."))
async def a_tool_that_is_not_there_is_no_yes(t):
    messages = await t.run(mcp_servers=AUTH, permission_prompt_tool_name="mcp__auth__nobody")
    assert "mcp__auth__nobody" in content(results(messages)[0]) and not t.has("made")


@case(TOUCH, text("Done."))
async def nobody_answers_when_nobody_shall(t):
    async def can(name, data, context):
        raise AssertionError("asked")

    messages = await t.run(can_use_tool=can, extra_args={"permission-prompts": "none"})
    assert results(messages)[0].is_error and not t.has("made") and not last(messages).is_error
    assert "haven't granted it yet" in content(results(messages)[0])


# Hooks


def answering(event, answer, seen=None, **more):
    async def hook(data, tool_use_id, context):
        if seen is not None:
            seen.append(data)
        return answer

    return {event: [HookMatcher(hooks=[hook], **more)]}


@case(TOUCH, text("Done."))
async def a_hook_may_decide_instead_of_the_host(t):
    decision = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    seen = []
    await t.run(hooks=answering("PermissionRequest", decision, seen))
    assert t.has("made") and seen[0]["tool_name"] == "Bash" and seen[0]["tool_input"]["command"] == "touch made"


@case(tool("Bash", command="exit 4"), text("Done."))
async def a_failure_may_be_explained(t):
    said = {"hookSpecificOutput": {"hookEventName": "PostToolUseFailure", "additionalContext": "try-harder"}}
    await t.run(hooks=answering("PostToolUseFailure", said), allowed_tools=["Bash"])
    assert "try-harder" in json.dumps((await t.requests())[1]["messages"])


@case(tool("Bash", command="echo secret"), text("Done."))
async def an_output_may_be_replaced(t):
    output = {"stdout": "masked", "stderr": "", "interrupted": False, "isImage": False}
    said = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}
    messages = await t.run(hooks=answering("PostToolUse", said))
    assert content(results(messages)[0]) == "masked" and users(messages)[0].tool_use_result == output
    assert "secret" not in json.dumps((await t.requests())[1]["messages"][-1])


@case(tool("Bash", command="echo kept"), text("Done."))
async def an_output_of_another_shape_is_ignored(t):
    said = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "just words"}}
    messages = await t.run(hooks=answering("PostToolUse", said))
    assert "kept" in content(results(messages)[0]) and users(messages)[0].tool_use_result["stdout"] == "kept"


@case(tool("mcp__auth__broken"), text("Done."))
async def an_output_of_a_server_may_be_anything(t):
    said = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedMCPToolOutput": [{"type": "text", "text": "other"}]}}
    messages = await t.run(hooks=answering("PostToolUse", said), mcp_servers=AUTH, allowed_tools=["mcp__auth"])
    assert results(messages)[0].content == [{"type": "text", "text": "other"}]


@case(TOUCH, text("Done."))
async def a_hook_that_must_answer_and_fails_blocks(t):
    async def hook(data, tool_use_id, context):
        raise RuntimeError("boom")

    hooks = {"PreToolUse": [HookMatcher(hooks=[hook], on_failure="block")]}
    messages = await t.run(hooks=hooks, allowed_tools=["Bash"])
    assert results(messages)[0].is_error and not t.has("made")
    t.stderr.clear()


@case(TOUCH, text("Done."))
async def a_hook_may_go_on_by_itself(t):
    await t.run(hooks=answering("PreToolUse", {"async_": True}), allowed_tools=["Bash"])
    assert t.has("made")


@case(text("ok"))
async def sessions_begin_with_a_hook(t):
    seen = []
    said = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "begun-with-this"}}
    await t.run(hooks=answering("SessionStart", said, seen))
    assert [it["source"] for it in seen] == ["startup"] and "begun-with-this" in json.dumps(await t.requests())


@case(text("ok"))
async def hooks_for_what_never_happens(t):
    events = ["Notification", "SubagentStart", "SubagentStop", "PreCompact", "SessionEnd"]
    hooks = {}
    for event in events:
        hooks |= answering(event, {})
    assert last(await t.run(hooks=hooks)).result == "ok"


DEFER = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "cat > /dev/null; echo '" + json.dumps(
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}) + "'"}]}]}})


@case(TOUCH, text("Taken up."))
async def a_command_may_defer_a_call(t):
    first = last(await t.run(settings=DEFER, allowed_tools=["Bash"]))
    assert (first.stop_reason, first.terminal_reason, first.is_error) == ("tool_deferred", "tool_deferred", False)
    assert first.deferred_tool_use.name == "Bash" and first.permission_denials == [] and not t.has("made")

    async def nothing():
        if False:
            yield {}

    again = last(await t.run(nothing(), allowed_tools=["Bash"], resume=first.session_id))
    assert again.result == "Taken up." and t.has("made")


# Output that must follow a schema

SCHEMA = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["good", "bad"]},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "count": {"type": "integer", "minimum": 1},
        "inner": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}}}, "required": ["list"]},
    },
    "required": ["mood", "code", "count", "inner"],
}
GOOD = {"mood": "good", "code": "ABC", "count": 2, "inner": {"list": ["a"]}}


def output(**change):
    return tool("StructuredOutput", **{**GOOD, **change})


def follows(label, turns, wrong):
    async def check(t):
        messages = await t.run(output_format={"type": "json_schema", "schema": SCHEMA})
        result = last(messages)
        assert result.subtype == "success" and result.structured_output == GOOD and json.loads(result.result) == GOOD
        refused = [content(it) for it in results(messages) if it.is_error]
        assert len(refused) == len(wrong) and all(name in said for name, said in zip(wrong, refused)), refused

    check.__name__ = f"output_{label}"
    case(*turns)(check)


follows("at_once", [output()], [])
follows("after_prose", [text("Good, I think."), output()], [])
follows("after_fenced_json", [text("```json\n" + json.dumps(GOOD) + "\n```"), output()], [])
follows("after_a_wrong_word", [output(mood="fine"), output()], ["mood"])
follows("after_a_wrong_pattern", [output(code="abcd"), output()], ["code"])
follows("after_a_wrong_number", [output(count=0), output()], ["count"])
follows("after_a_wrong_inside", [output(inner={"list": [7]}), output()], ["list"])
follows("after_two_wrong", [output(mood=1), output(count="x"), output()], ["mood", "count"])
follows("after_tools", [tool("Glob", pattern="*"), output()], [])


@case(*[output(mood="none")] * 5, output())
async def output_that_is_never_right_is_an_error(t):
    seen = []
    try:
        async for message in query(prompt="go", options=t.options(output_format={"type": "json_schema", "schema": SCHEMA})):
            seen.append(message)
    except (ResultError, ProcessError):
        pass
    result = last(seen)
    assert (result.subtype, result.is_error) == ("error_max_structured_output_retries", True)
    assert result.structured_output is None and "mood" in json.dumps(result.errors), result.errors


@case(*[text("I would rather not.")] * 8)
async def output_that_never_comes_is_an_error(t):
    seen = []
    try:
        async for message in query(prompt="go", options=t.options(output_format={"type": "json_schema", "schema": SCHEMA})):
            seen.append(message)
    except (ResultError, ProcessError):
        pass
    assert last(seen).subtype == "error_max_structured_output_retries" and last(seen).structured_output is None


@case(text("ok"))
async def flags_of_a_newer_sdk_are_left_out(t):
    result = await t.result(extra_args={"future-flag": None, "future-mode": "update", "future-limit": "-3"})
    assert result.result == "ok"
    names = ["--future-flag", "--future-mode", "--future-limit"]
    assert [line.strip() for line in t.stderr] == [f"haft: ignored the unknown option {it}" for it in names], t.stderr
    t.stderr.clear()


@case(text("Heard both."))
async def a_prompt_without_an_answer_has_a_result(t):
    async def silent():
        yield {"type": "user", "message": {"role": "user", "content": "Remember xyzzy."}, "shouldQuery": False}

    async with t.client() as client:
        await client.query(silent())
        first = [message async for message in client.receive_response()][-1]
        assert (first.subtype, first.result, first.num_turns) == ("success", "", 0), first
        assert last(await turn(client, "go")).result == "Heard both."
    assert "xyzzy" in json.dumps((await t.requests())[0]["messages"])
