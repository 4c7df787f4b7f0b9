"""Tasks, teams, messages between agents, and what was withdrawn, as hosts see them."""

import json

from claude_agent_sdk import (
    AssistantMessage,
    HookMatcher,
    ResultMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
)

from agents import child
from harness import both, case, content, last, results, text, tool, users


def bee():
    data = {"description": "looks", "prompt": "look at it", "name": "bee", "run_in_background": False}
    return {"reply": [{"tool": {"name": "Agent", "input": data}}]}


def said_by(result):
    """The words of a result, without what was loaded for it."""
    blocks = [{"text": result.content}] if isinstance(result.content, str) else result.content
    return "".join(it.get("text", "") for it in blocks)


@case(
    both(
        tool("TaskCreate", subject="Dig", description="a hole"),
        tool("TaskCreate", subject="Plant", description="a tree"),
        tool("TaskUpdate", taskId="2", addBlockedBy=["1"]),
        tool("TaskUpdate", taskId="1", addBlockedBy=["2"]),
        tool("TaskList"),
    ),
    both(tool("TaskUpdate", taskId="1", status="completed"), tool("TaskGet", taskId="2"), tool("TaskList")),
    text("Done."),
)
async def tasks_are_kept_in_order_and_hooks_hear_of_them(t):
    heard = []

    async def hook(data, tool_use_id, context):
        heard.append((data["hook_event_name"], data.get("task_subject")))
        return {}

    hooks = {"TaskCreated": [HookMatcher(hooks=[hook])], "TaskCompleted": [HookMatcher(hooks=[hook])]}
    seen = await t.run("go", hooks=hooks)
    said = [said_by(it) for it in results(seen)]
    assert said[4] == "#1 [pending] Dig\n#2 [pending] Plant [blocked by #1]", said
    assert said[7].startswith("#1 [completed] Dig\n#2 [pending] Plant"), said
    data = [it.tool_use_result for it in users(seen) if it.tool_use_result]
    assert data[0]["task"]["id"] == "1" and data[0]["task"]["subject"] == "Dig", data[0]
    assert [it for it in heard if it[0] == "TaskCreated"] == [("TaskCreated", "Dig"), ("TaskCreated", "Plant")], heard
    assert ("TaskCompleted", "Dig") in heard, heard


@case(
    child(text("First report."), last_user="look at it"),
    child(text("Second report."), last_user="once more"),
    bee(),
    tool("SendMessage", to="bee", message="Do it once more."),
    tool("ListAgents"),
    {"reply": [{"text": "Heard it."}], "when": {"last_user": "Second report."}},
    text("Waiting."),
)
async def an_agent_goes_on_with_a_message_and_keeps_its_id(t):
    seen = await t.run("go")
    started = [it for it in seen if isinstance(it, TaskStartedMessage)]
    ended = [it for it in seen if isinstance(it, TaskNotificationMessage)]
    assert [it.summary for it in ended] == ["First report.", "Second report."], ended
    assert len({it.task_id for it in started}) == 1, "the same agent"
    assert len({it.data["run_id"] for it in started}) == 2, "in two runs"
    assert any("bee" in content(it) for it in results(seen))
    requests = await t.requests()
    goes_on = next(it for it in requests if "once more" in json.dumps(it["messages"][-1]) and "Another agent gave" in json.dumps(it["system"]))
    assert "First report." in json.dumps(goes_on["messages"]), "it knows what it said before"


@case(
    child(text("Swept."), last_user="sweep"),
    child(text("Dug.")),
    tool("TeamCreate", team_name="reds"),
    bee(),
    tool("TeamDelete"),
    text("Done."),
)
async def a_hook_of_the_host_may_keep_a_member_at_work(t):
    heard = []

    async def idle(data, tool_use_id, context):
        heard.append((data["teammate_name"], data["team_name"]))
        return {"decision": "block", "reason": "also sweep"} if len(heard) == 1 else {}

    seen = await t.run("go", hooks={"TeammateIdle": [HookMatcher(hooks=[idle])]})
    assert heard == [("bee", "reds"), ("bee", "reds")], heard
    ended = next(it for it in seen if isinstance(it, TaskNotificationMessage))
    assert ended.summary == "Swept.", ended
    assert last(seen).result == "Done."


@case(
    {"reply": [{"text": "First try, complete."}, {"open_text": "and more"}, {"cut": "reset"}]},
    text("Second try."),
)
async def an_answer_names_what_it_replaces(t):
    seen = await t.run("go")
    answers = [it for it in seen if isinstance(it, AssistantMessage)]
    assert [it.content[0].text for it in answers] == ["First try, complete.", "Second try."], answers
    assert last(seen).result == "Second try." and len([it for it in seen if isinstance(it, ResultMessage)]) == 1
