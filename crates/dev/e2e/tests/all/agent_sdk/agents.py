"""Agents that agents start: frames, hooks, callbacks, logs."""

import asyncio
import json
import os

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    ToolUseBlock,
    UserMessage,
)

from harness import both, case, content, init, last, results, systems, text, tool, turn, users, words


def child(turn, **when):
    """An answer to an agent that another one started."""
    return {**turn, "when": {"system": "Another agent gave you this task", **when}}


def agent(**data):
    return tool("Agent", **{"description": "looks", "prompt": "look at it", **data})


REVIEWER = {"reviewer": AgentDefinition(description="Reviews", prompt="You review ABC.", tools=["Read", "Write"], model="haiku")}


@case(
    child(tool("Read", file_path="$WS/a.txt")),
    child(text("It says one.")),
    agent(subagent_type="reviewer", run_in_background=False),
    text("Done."),
    files={"a.txt": "one\n"},
)
async def a_foreground_agent_is_told_with_its_call(t):
    seen = await t.run("go", agents=REVIEWER)
    assert last(seen).result == "Done."
    assert "reviewer" in init(seen)["agents"] and "Explore" in init(seen)["agents"]
    started = next(it for it in seen if isinstance(it, TaskStartedMessage))
    ended = next(it for it in seen if isinstance(it, TaskNotificationMessage))
    assert (started.task_type, started.description, started.task_id) == ("local_agent", "looks", ended.task_id), started
    assert started.data["subagent_type"] == "reviewer" and started.data["is_backgrounded"] is False
    assert started.data["spawn_depth"] == 1 and started.data["prompt"] == "look at it"
    assert ended.status == "completed" and ended.summary == "It says one." and os.path.exists(ended.output_file)
    assert ended.usage["tool_uses"] == 1 and ended.usage["total_tokens"] > 0
    assert any(isinstance(it, TaskProgressMessage) and it.last_tool_name == "Read" for it in seen)
    # What happened inside names the call.
    call = started.tool_use_id
    inside = [it for it in seen if getattr(it, "parent_tool_use_id", None) == call]
    calls = [block for it in inside if isinstance(it, AssistantMessage) for block in it.content]
    assert [block.name for block in calls if isinstance(block, ToolUseBlock)] == ["Read"], inside
    assert not any(hasattr(block, "text") for block in calls), "words are not forwarded unless asked for"
    assert [it for it in inside if isinstance(it, UserMessage) and "look at it" in json.dumps(it.content, default=str)]
    # The result of the call holds the report.
    result = next(it for it in results([it for it in seen if getattr(it, "parent_tool_use_id", 1) is None]) if it.tool_use_id == call)
    assert "It says one." in content(result) and not result.is_error
    data = next(it.tool_use_result for it in users(seen) if it.parent_tool_use_id is None and it.tool_use_result)
    assert data["status"] == "completed" and data["agentType"] == "reviewer" and data["totalToolUseCount"] == 1
    first = next(it for it in await t.requests() if "You review ABC." in json.dumps(it["system"]))
    assert "haiku" in first["model"] and [it["name"] for it in first["tools"]] == ["Read", "Write"]
    # Everything is in the bill, and the main agent's usage is its own.
    assert len(last(seen).model_usage) == 2


@case(
    child(text("The report.")),
    agent(),
    text("Started."),
    {"reply": [{"text": "Heard it."}], "when": {"last_user": "The report."}},
)
async def the_report_of_a_background_agent_begins_a_turn(t):
    seen = await t.run("go")
    answers = [it.result for it in seen if isinstance(it, ResultMessage)]
    assert answers[-1] == "Heard it." or answers == ["Started."], answers
    started = next(it for it in seen if isinstance(it, TaskStartedMessage))
    assert started.data["is_backgrounded"] is True
    changed = [len(it["tasks"]) for it in systems(seen, "background_tasks_changed")]
    assert changed[0] == 1 and changed[-1] == 0, changed
    data = next(it.tool_use_result for it in users(seen) if it.tool_use_result)
    assert data["status"] == "async_launched" and data["isAsync"] is True and data["agentId"] == started.task_id
    said = json.dumps((await t.requests())[-1]["messages"])
    assert said.count("The report.") == 1


@case(
    child(tool("Write", file_path="$WS/x.txt", content="x")),
    child(text("Tried.")),
    agent(run_in_background=False),
    text("Done."),
)
async def callbacks_and_hooks_know_the_agent(t):
    asked, hooked = [], []

    async def allow(name, data, context):
        asked.append((name, getattr(context, "agent_id", None)))
        return PermissionResultAllow()

    async def hook(data, call, context):
        hooked.append((data["hook_event_name"], data.get("agent_id"), data.get("agent_type"), data))
        return {}

    events = ["PreToolUse", "PostToolUse", "SubagentStart", "SubagentStop", "Stop"]
    hooks = {name: [HookMatcher(hooks=[hook])] for name in events}
    async with t.client(can_use_tool=allow, hooks=hooks) as client:
        seen = await turn(client, "go")
    assert last(seen).result == "Done." and t.has("x.txt")
    task = next(it.task_id for it in seen if isinstance(it, TaskStartedMessage))
    assert asked == [("Write", task)], asked
    names = [(name, agent) for name, agent, _, _ in hooked]
    assert names == [
        ("PreToolUse", None), ("SubagentStart", task), ("PreToolUse", task), ("PostToolUse", task),
        ("SubagentStop", task), ("PostToolUse", None), ("Stop", None),
    ], names
    stop = next(data for name, _, _, data in hooked if name == "SubagentStop")
    assert stop["agent_type"] == "general-purpose" and stop["last_assistant_message"] == "Tried."
    assert stop["agent_transcript_path"].endswith(f"agent-{task}.jsonl") and "subagents" not in stop["transcript_path"]


@case(
    child(tool("Write", file_path="$WS/x.txt", content="x")),
    child(text("Could not.")),
    agent(run_in_background=False),
    text("Done."),
)
async def plan_mode_holds_inside_agents_whatever_the_host_says(t):
    async def allow(name, data, context):
        return PermissionResultAllow()

    async with t.client(can_use_tool=allow, permission_mode="plan") as client:
        seen = await turn(client, "go")
    assert not t.has("x.txt") and last(seen).result == "Done."
    denied = systems(seen, "permission_denied")
    assert denied and denied[0]["agent_id"].startswith("a"), denied


@case(
    child({"reply": [{"stall": "forever"}]}),
    agent(prompt="hang"),
    text("Started."),
    text("After."),
)
async def an_interrupt_stops_agents_and_the_model_is_told(t):
    async with t.client() as client:
        begun = await turn(client, "go")
        assert last(begun).result == "Started."
        await client.interrupt()
        after = await turn(client, "and now?")
    ended = [it for it in [*begun, *after] if isinstance(it, TaskNotificationMessage)]
    assert [it.status for it in ended] == ["stopped"], ended
    said = json.dumps((await t.requests())[-1]["messages"])
    assert "the user stopped it" in said and said.count("<task-id>") == 1, said


@case(
    child(tool("Read", file_path="$WS/a.txt")),
    child(text("It says one.")),
    agent(run_in_background=False),
    text("Done."),
    files={"a.txt": "one\n"},
)
async def session_readers_find_agents(t):
    from claude_agent_sdk import get_session_messages

    seen = await t.run("go")
    task = next(it.task_id for it in seen if isinstance(it, TaskStartedMessage))
    session = last(seen).session_id
    os.environ["CLAUDE_CONFIG_DIR"] = os.path.join(t.home, ".claude")
    try:
        main = get_session_messages(session, directory=t.ws)
        import claude_agent_sdk

        if hasattr(claude_agent_sdk, "list_subagents"):
            assert claude_agent_sdk.list_subagents(session, directory=t.ws) == [task]
            inside = claude_agent_sdk.get_subagent_messages(session, task, directory=t.ws)
            assert [it.type for it in inside] == ["user", "assistant", "user", "assistant"], inside
    finally:
        del os.environ["CLAUDE_CONFIG_DIR"]
    assert all("It says one." not in json.dumps(it.message) or "tool_result" in json.dumps(it.message) for it in main)


QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
    "multiSelect": False,
}


@case(tool("AskUserQuestion", questions=[QUESTION]), text("Done."))
async def questions_reach_the_host_and_answers_the_model(t):
    async def answer(name, data, context):
        assert name == "AskUserQuestion", name
        return PermissionResultAllow(updated_input={**data, "answers": {"Which one?": "B"}})

    async with t.client(can_use_tool=answer, permission_mode="bypassPermissions", extra_args={"allow-dangerously-skip-permissions": None}) as client:
        seen = await turn(client, "go")
    assert 'Which one?' in content(results(seen)[0]) and 'answers' in content(results(seen)[0]), results(seen)
    data = next(it.tool_use_result for it in users(seen) if it.tool_use_result)
    assert data["answers"] == {"Which one?": "B"}


@case(tool("ExitPlanMode", plan="1. Do it"), tool("Write", file_path="$WS/y.txt", content="y"), text("Done."))
async def a_plan_is_approved_with_changes(t):
    async def decide(name, data, context):
        if name == "ExitPlanMode":
            assert data["plan"] == "1. Do it" and data["planFilePath"].endswith(".md"), data
            return PermissionResultAllow(updated_input={**data, "plan": "1. Do it well"})
        return PermissionResultAllow()

    async with t.client(can_use_tool=decide, permission_mode="plan") as client:
        seen = await turn(client, "go")
    first, second = results(seen)
    assert "1. Do it well" in content(first) and not second.is_error and t.has("y.txt"), results(seen)


@case(tool("ExitPlanMode", plan="1. Do it"), tool("Write", file_path="$WS/y.txt", content="y"), text("Done."))
async def a_plan_that_is_refused_leaves_plan_mode_on(t):
    async def decide(name, data, context):
        return PermissionResultDeny(message="Not like that") if name == "ExitPlanMode" else PermissionResultAllow()

    async with t.client(can_use_tool=decide, permission_mode="plan") as client:
        seen = await turn(client, "go")
    first, second = results(seen)
    assert "Not like that" in content(first) and second.is_error and not t.has("y.txt"), results(seen)
