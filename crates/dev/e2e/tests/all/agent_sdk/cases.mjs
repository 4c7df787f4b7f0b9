// Cases of the TypeScript Agent SDK.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createSdkMcpServer, tool as sdkTool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";
import { add, both, init, json, last, main, Prompts, results, stall, systems, text, tool, turns, users, write } from "./harness.mjs";
import "./launch_cases.mjs";
import "./more_cases.mjs";

add("a_query_answers", [text("Hello!")], async (t) => {
  const seen = await t.run("hi");
  assert.deepEqual(seen.map((it) => it.type), ["system", "assistant", "result"]);
  assert.equal(last(seen).result, "Hello!");
  assert.equal(last(seen).session_id, init(seen).session_id);
  assert.ok(init(seen).tools.includes("Read") && init(seen).cwd === t.ws);
});

add("turns_share_a_session", [text("One."), text("Two.")], async (t) => {
  const [one, two] = await turns(t, {}, ["first", "second"]);
  assert.deepEqual([last(one).result, last(two).result], ["One.", "Two."]);
  assert.ok(json((await t.requests())[1].messages).includes("One."));
});

add("partial_messages", [text("a fairly long answer that comes in pieces")], async (t) => {
  const seen = await t.run("go", { includePartialMessages: true });
  const events = seen.filter((it) => it.type === "stream_event").map((it) => it.event);
  const pieces = events.filter((it) => it.type === "content_block_delta").map((it) => it.delta.text);
  assert.equal(pieces.join(""), "a fairly long answer that comes in pieces");
  assert.equal(events.at(0).type, "message_start");
  assert.equal(events.at(-1).type, "message_stop");
});

add("prompts_of_the_system", [text("ok")], async (t) => {
  await t.run("go", { systemPrompt: "You are a pirate.", model: "claude-sonnet-4-5" });
  const [request] = await t.requests();
  assert.ok(json(request.system).includes("You are a pirate.") && request.model === "claude-sonnet-4-5");
});

add("a_preset_is_appended_to", [text("ok")], async (t) => {
  await t.run("go", { systemPrompt: { type: "preset", preset: "claude_code", append: "Always rhyme." } });
  assert.ok(json((await t.requests())[0].system).includes("Always rhyme."));
});

add("a_yes_may_rewrite", [write("a.txt", "model"), text("Done.")], async (t) => {
  const asked = [];
  const canUseTool = async (name, input, more) => {
    asked.push([name, more]);
    return { behavior: "allow", updatedInput: { ...input, content: "host" } };
  };
  await t.run("go", { canUseTool });
  assert.equal(t.read("a.txt"), "host");
  const [name, more] = asked[0];
  assert.ok(name === "Write" && more.suggestions.length > 0 && more.signal && more.toolUseID);
});

add("a_no_is_told", [write("a.txt"), text("Fine.")], async (t) => {
  const seen = await t.run("go", { canUseTool: async () => ({ behavior: "deny", message: "not here" }) });
  assert.ok(results(seen)[0].is_error && json(results(seen)[0]).includes("not here") && !t.has("a.txt"));
  assert.equal(last(seen).permission_denials[0].tool_name, "Write");
});

add("a_no_may_end_the_turn", [write("a.txt"), text("never")], async (t) => {
  const seen = [];
  const canUseTool = async () => ({ behavior: "deny", message: "stop", interrupt: true });
  try {
    for await (const message of t.query("go", { canUseTool })) seen.push(message);
  } catch {
    // Some versions raise what the result says.
  }
  assert.equal(last(seen).terminal_reason, "aborted_tools");
  assert.equal((await t.requests()).length, 1);
});

add("a_host_that_throws_is_no_yes", [write("a.txt"), text("Fine.")], async (t) => {
  const seen = await t.run("go", {
    canUseTool: async () => {
      throw new Error("boom");
    },
  });
  assert.ok(results(seen)[0].is_error && !t.has("a.txt"));
});

add("modes_and_models_are_switched", [text("One."), text("Two.")], async (t) => {
  const [, two] = await turns(t, { model: "claude-opus-4-5" }, ["a", "b"], async (running, count) => {
    if (count !== 1) return;
    await running.setModel("claude-sonnet-4-5");
    await running.setPermissionMode("acceptEdits");
    await running.setMaxThinkingTokens(2000);
    await assert.rejects(running.setPermissionMode("nonsense"));
  });
  assert.equal(init(two).model, "claude-sonnet-4-5");
  assert.equal(init(two).permissionMode, "acceptEdits");
  assert.equal((await t.requests())[1].thinking.budget_tokens, 2000);
});

add("interrupted_while_it_speaks", [stall(text("begun")), text("again")], async (t) => {
  const input = new Prompts();
  const running = t.query(input, {});
  input.say("go");
  const ends = [];
  for await (const message of running) {
    if (message.type === "assistant" && ends.length === 0) await running.interrupt();
    if (message.type !== "result") continue;
    ends.push(message);
    if (ends.length === 1) input.say("next");
    else input.end();
  }
  assert.equal(ends[0].terminal_reason, "aborted_streaming");
  assert.equal(ends[1].result, "again");
});

add("what_can_be_asked", [text("ok")], async (t) => {
  await turns(t, { agents: { rev: { description: "Reviews", prompt: "Review." } } }, ["a"], async (running) => {
    assert.ok((await running.supportedCommands()).some((it) => it.name === "compact"));
    assert.ok((await running.supportedModels()).length > 0);
    assert.ok((await running.supportedAgents()).some((it) => it.name === "rev"));
    assert.deepEqual(await running.mcpServerStatus(), []);
    assert.ok((await running.accountInfo()).apiKeySource);
    assert.ok((await running.getContextUsage()).totalTokens > 0);
    await running.applyFlagSettings({ permissions: { allow: ["Write"] } });
  });
});

add("settings_change_while_it_runs", [write("a.txt"), text("No."), write("a.txt"), text("Yes.")], async (t) => {
  const [one, two] = await turns(t, {}, ["a", "b"], async (running, count) => {
    if (count === 1) await running.applyFlagSettings({ permissions: { allow: ["Write", "Edit"] } });
  });
  assert.ok(results(one)[0].is_error && !results(two)[0].is_error && t.has("a.txt"));
});

const remember = (seen, answer = {}) => async (input) => {
  seen.push(input);
  return typeof answer === "function" ? answer(input) : answer;
};

add("every_event_is_told", [both(tool("Bash", { command: "echo hi" }), tool("Read", { file_path: "$WS/no" })), text("Done.")], async (t) => {
  const events = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "UserPromptSubmit", "Stop"];
  const seen = [];
  const hooks = Object.fromEntries(events.map((event) => [event, [{ hooks: [remember(seen)] }]]));
  await t.run("the prompt", { hooks });
  assert.deepEqual([...new Set(seen.map((it) => it.hook_event_name))].sort(), [...events].sort());
  const batches = seen.filter((it) => it.hook_event_name === "PostToolBatch");
  assert.ok(batches.length === 1 && batches[0].tool_calls.length === 2);
});

add("hooks_decide", [tool("Bash", { command: "touch a" }), tool("Bash", { command: "touch b" }), text("Done.")], async (t) => {
  const decide = (input) => {
    const output = { hookEventName: "PreToolUse", permissionDecision: "allow" };
    if (input.tool_input.command.endsWith("a")) return { hookSpecificOutput: { ...output, permissionDecision: "deny", permissionDecisionReason: "not a" } };
    return { hookSpecificOutput: { ...output, updatedInput: { command: "touch c" } } };
  };
  const seen = await t.run("go", { hooks: { PreToolUse: [{ matcher: "Bash", hooks: [remember([], decide)] }] } });
  assert.ok(json(results(seen)[0]).includes("not a") && !t.has("a") && !t.has("b") && t.has("c"));
});

const calc = () =>
  createSdkMcpServer({
    name: "calc",
    version: "1.0.0",
    tools: [
      sdkTool("add", "Adds", { a: z.number(), b: z.number() }, async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }] })),
      sdkTool("fail", "Fails", {}, async () => {
        throw new Error("on purpose");
      }),
      sdkTool("slow", "Waits", { n: z.number() }, async ({ n }) => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        return { content: [{ type: "text", text: `slow ${n}` }] };
      }, { annotations: { readOnlyHint: true } }),
    ],
  });

add("tools_of_the_program", [both(tool("mcp__calc__add", { a: 1, b: 2 }), tool("mcp__calc__fail")), text("Done.")], async (t) => {
  async function* prompts() {
    yield { type: "user", message: { role: "user", content: "add" } };
  }
  const seen = await t.run(prompts(), { mcpServers: { calc: calc() }, allowedTools: ["mcp__calc__*"] });
  assert.deepEqual(init(seen).mcp_servers.map((it) => [it.name, it.status]), [["calc", "connected"]]);
  const [good, bad] = results(seen);
  assert.ok(json(good).includes("3") && !good.is_error && bad.is_error && json(bad).includes("on purpose"));
});

add("tools_that_only_read_run_together", [both(...[1, 2, 3, 4].map((n) => tool("mcp__calc__slow", { n }))), text("Done.")], async (t) => {
  const seen = await t.run("go", { mcpServers: { calc: calc() }, allowedTools: ["mcp__calc"] });
  assert.deepEqual(results(seen).map((it) => json(it.content).match(/slow \d/)[0]), ["slow 1", "slow 2", "slow 3", "slow 4"]);
});

add("servers_are_set_while_it_runs", [text("One."), tool("mcp__calc__add", { a: 2, b: 2 }), text("Two.")], async (t) => {
  const [one, two] = await turns(t, { allowedTools: ["mcp__calc"] }, ["a", "b"], async (running, count) => {
    if (count !== 1) return;
    const done = await running.setMcpServers({ calc: calc() });
    assert.deepEqual([done.added, done.removed], [["calc"], []]);
  });
  assert.ok(!init(one).tools.includes("mcp__calc__add") && json(results(two)[0]).includes("4"));
});

add("output_follows_a_schema", [tool("StructuredOutput", { sum: 3 })], async (t) => {
  const schema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
  const seen = await t.run("go", { outputFormat: { type: "json_schema", schema } });
  assert.deepEqual(last(seen).structured_output, { sum: 3 });
});

add("sessions_go_on", [text("One."), text("Two."), text("Three.")], async (t) => {
  const first = last(await t.run("alpha"));
  const second = last(await t.run("beta", { resume: first.session_id }));
  const forked = last(await t.run("gamma", { resume: first.session_id, forkSession: true }));
  assert.ok(second.session_id === first.session_id && forked.session_id !== first.session_id);
  assert.ok(json((await t.requests())[2].messages).includes("beta"));
});

add("nothing_is_kept_unasked", [text("One.")], async (t) => {
  await t.run("alpha", { persistSession: false });
  const logs = path.join(t.home, ".claude/projects");
  const kept = fs.existsSync(logs) ? fs.readdirSync(logs, { recursive: true }).filter((it) => it.endsWith(".jsonl")) : [];
  assert.deepEqual(kept, []);
});

add("files_go_back", [write("new.txt", "new"), text("Done.")], async (t) => {
  const id = "11111111-1111-4111-8111-111111111111";
  const input = new Prompts();
  const options = { permissionMode: "acceptEdits", enableFileCheckpointing: true };
  const running = t.query(input, options);
  input.say("go", { uuid: id });
  for await (const message of running) {
    if (message.type !== "result") continue;
    assert.ok(t.has("new.txt"));
    const look = await running.rewindFiles(id, { dryRun: true });
    assert.deepEqual([look.canRewind, look.filesChanged], [true, [t.path("new.txt")]]);
    assert.ok(t.has("new.txt"));
    await running.rewindFiles(id);
    assert.ok(!t.has("new.txt"));
    input.end();
  }
});

add("everything_is_allowed", [tool("Bash", { command: "touch a" }), text("Done.")], async (t) => {
  await t.run("go", { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true, env: { IS_SANDBOX: "1" } });
  assert.ok(t.has("a"));
});

add("an_aborted_query_leaves_nothing_behind", [tool("Bash", { command: "sleep 600 & echo $! > pid; wait" })], async (t) => {
  const abortController = new AbortController();
  await assert.rejects(async () => {
    for await (const message of t.query("go", { abortController, allowedTools: ["Bash"], permissionMode: "acceptEdits" })) {
      if (message.type !== "assistant") continue;
      while (!t.has("pid") || t.read("pid") === "") await new Promise((resolve) => setTimeout(resolve, 20));
      abortController.abort();
    }
    throw new Error("ended by itself");
  });
  const pid = Number(t.read("pid"));
  const isThere = () => fs.existsSync(`/proc/${pid}`) && !fs.readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z");
  const deadline = Date.now() + 120_000;
  while (isThere() && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(!isThere(), "the command still runs");
});

// Tasks, teams and what was withdrawn.
const child = (turn, when = {}) => ({ ...turn, when: { system: "Another agent gave you this task", ...when } });
const agent = (input = {}) => tool("Agent", { description: "looks", prompt: "look at it", ...input });

add("tasks_are_kept_in_order", [
  both(tool("TaskCreate", { subject: "Dig", description: "a hole" }), tool("TaskCreate", { subject: "Plant", description: "a tree" }), tool("TaskUpdate", { taskId: "2", addBlockedBy: ["1"] }), tool("TaskList")),
  text("Done."),
], async (t) => {
  const heard = [];
  const hook = async (input) => (heard.push([input.hook_event_name, input.task_subject]), {});
  const seen = await t.run("go", { hooks: { TaskCreated: [{ hooks: [hook] }] } });
  const list = [results(seen)[3].content].flat().map((it) => it.text ?? it)[0];
  assert.equal(list, "#1 [pending] Dig\n#2 [pending] Plant [blocked by #1]");
  assert.deepEqual(heard, [["TaskCreated", "Dig"], ["TaskCreated", "Plant"]]);
});

add("a_member_of_a_team_may_be_kept_at_work", [
  child(text("Swept."), { last_user: "sweep" }), child(text("Dug.")),
  tool("TeamCreate", { team_name: "reds" }), agent({ name: "bee", run_in_background: false }), text("Done."),
], async (t) => {
  const heard = [];
  const idle = async (input) => (heard.push([input.teammate_name, input.team_name]), heard.length === 1 ? { decision: "block", reason: "also sweep" } : {});
  const seen = await t.run("go", { hooks: { TeammateIdle: [{ hooks: [idle] }] } });
  assert.deepEqual(heard, [["bee", "reds"], ["bee", "reds"]]);
  assert.equal(systems(seen, "task_notification")[0].summary, "Swept.");
});

// A query of one prompt closes its input before the agent has ended.
add("a_background_agent_reports_after_the_input_ended", [
  { ...child(text("Found it.")), delay_ms: 1500 }, agent({ run_in_background: true }), text("Started."), text("It says: found."),
], async (t) => {
  const seen = await t.run("go");
  assert.equal(last(seen).result, "It says: found.");
  assert.equal(systems(seen, "task_notification")[0].status, "completed");
  assert.ok(json((await t.requests()).at(-1).messages).includes("Found it."));
});

add("agents_say_what_they_do", [
  { ...child(text("Reading the parser"), { last_user: "what you are doing right now" }), times: "always" },
  child(tool("Bash", { command: "for i in $(seq 2000); do test -e told && break; sleep 0.05; done", description: "waits" })),
  child(text("Looked.")), agent({ run_in_background: false }), text("Done."),
], async (t) => {
  const seen = [];
  const options = { agentProgressSummaries: true, allowedTools: ["Bash"], env: { HAFT_AGENT_SUMMARY_MS: "20" } };
  for await (const message of t.query("go", options)) {
    seen.push(message);
    if (message.subtype === "task_progress" && message.summary) fs.writeFileSync(path.join(t.ws, "told"), "");
  }
  const told = systems(seen, "task_progress").filter((it) => it.summary);
  assert.ok(told.length > 0 && told.every((it) => it.summary === "Reading the parser"));
  assert.equal(told[0].task_id, systems(seen, "task_started")[0].task_id);
  assert.equal(told[0].run_id, systems(seen, "task_started")[0].run_id);
  assert.equal(systems(seen, "task_notification")[0].summary, "Looked.");
});

add("an_answer_names_what_it_replaces", [
  { reply: [{ text: "First try, complete." }, { open_text: "and more" }, { cut: "reset" }] }, text("Second try."),
], async (t) => {
  const answers = (await t.run("go")).filter((it) => it.type === "assistant");
  assert.deepEqual(answers.map((it) => it.message.content[0].text), ["First try, complete.", "Second try."]);
  assert.deepEqual(answers[1].supersedes, [answers[0].uuid]);
});

await main();
