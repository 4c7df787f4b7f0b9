// Options, methods and messages of the TypeScript Agent SDK, one by one; every block of TypeScript
// in the second seed.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createSdkMcpServer, query, tool as sdkTool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";
import { add, both, init, json, last, Prompts, results, stall, systems, text, tool, turns, users, write } from "./harness.mjs";

const bash = (command, more = {}) => tool("Bash", { command, ...more });
const until = async (done) => {
  const deadline = Date.now() + 120_000;
  while (!done()) {
    assert.ok(Date.now() < deadline, "it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

// Options: each is passed, and does what it says where that can be seen.
const option = (name, options, check = () => {}, files = {}, prompt = "go") =>
  add(`option_${name}`, [text("ok")], async (t) => {
    const given = typeof options === "function" ? options(t) : options;
    const seen = await t.run(prompt, given);
    assert.equal(last(seen).result, "ok");
    await check({ t, seen, start: init(seen), request: (await t.requests())[0] });
  }, files);

option("additionalDirectories", { additionalDirectories: ["/usr/share"] }, ({ start }) => assert.deepEqual(start.additional_directories, ["/usr/share"]));
option("agent", { agent: "rev", agents: { rev: { description: "Reviews", prompt: "You review XYZ.", tools: ["Read"] } } }, ({ request, start }) => {
  assert.ok(json(request.system).includes("You review XYZ."));
  assert.deepEqual([request.tools.map((it) => it.name), start.tools], [["Read"], ["Read"]]);
});
option("agents", { agents: { rev: { description: "Reviews", prompt: "Review.", model: "sonnet" } } }, ({ start }) => assert.ok(start.agents.includes("rev")));
option("allowedTools", { allowedTools: ["Read", "LS", "Search", "Git", "Explore", "mcp__github__*", "Bash(git log:*)"] });
option("betas", { betas: ["context-1m-2025-08-07"] }, ({ start }) => assert.deepEqual(start.betas, ["context-1m-2025-08-07"]));
option("debug", (t) => ({ debug: true, debugFile: path.join(t.home, "debug.log") }));
option("disallowedTools", { disallowedTools: ["Bash", "Write"] }, ({ start, request }) => {
  for (const name of ["Bash", "Write"]) assert.ok(!start.tools.includes(name) && !request.tools.some((it) => it.name === name));
});
option("effort", { effort: "low", model: "claude-opus-4-5" }, ({ request }) => assert.equal(request.output_config?.effort, "low"));
option("extraArgs", { extraArgs: { "replay-user-messages": null } }, ({ seen }) => assert.equal(users(seen)[0].isReplay, true));
option("fallbackModel", { model: "claude-opus-4-5", fallbackModel: "claude-sonnet-4-5" });
option("forwardSubagentText", { forwardSubagentText: true, agentProgressSummaries: true, promptSuggestions: false, perTaskStopAffordance: true });
option("includeHookEvents", { includeHookEvents: true });
option("managedSettings", { managedSettings: { permissions: { deny: ["Bash"] } } }, ({ start }) => assert.ok(!start.tools.includes("Bash")));
option("maxBudgetUsd", { maxBudgetUsd: 5 });
option("maxThinkingTokens", { maxThinkingTokens: 3000, model: "claude-sonnet-4-5" }, ({ request }) => assert.equal(request.thinking.budget_tokens, 3000));
option("outputStyle", { settings: { outputStyle: "mine" } }, ({ start }) => assert.equal(start.output_style, "mine"));
option("permissionMode", { permissionMode: "acceptEdits" }, ({ start }) => assert.equal(start.permissionMode, "acceptEdits"));
option("planModeInstructions", { planModeInstructions: "Plan well.", permissionMode: "plan" }, ({ start }) => assert.equal(start.permissionMode, "plan"));
const PLUGIN = { "plug/.claude-plugin/plugin.json": '{"name":"plug"}', "plug/commands/hey.md": "Hey" };
option("plugins", (t) => ({ plugins: [{ type: "local", path: t.path("plug") }] }), ({ start }) => assert.ok(start.slash_commands.includes("plug:hey")), PLUGIN);
option("pluginDelivery", (t) => ({ plugins: [{ type: "local", path: t.path("plug") }], pluginDelivery: "initialize" }), ({ start }) => {
  assert.ok(start.slash_commands.includes("plug:hey") && start.plugins[0].name === "plug");
}, PLUGIN);
option("plugins_without_servers", (t) => ({ plugins: [{ type: "local", path: t.path("plug"), skipMcpDiscovery: true }] }), ({ start }) => {
  assert.ok(start.slash_commands.includes("plug:hey") && start.mcp_servers.length === 0);
}, { ...PLUGIN, "plug/.mcp.json": '{"mcpServers":{"x":{"command":"/no/such"}}}' });
option("sessionId", { sessionId: "33333333-3333-4333-8333-333333333333" }, ({ start }) => assert.equal(start.session_id, "33333333-3333-4333-8333-333333333333"));
option("settingSources_none", { settingSources: [] }, ({ request, start }) => assert.ok(!json(request).includes("xyzzy") && start.output_style === "default"), {
  "CLAUDE.md": "xyzzy",
  ".claude/settings.json": '{"outputStyle":"s"}',
});
option("settingSources_project", { settingSources: ["project"] }, ({ request, start }) => assert.ok(json(request).includes("xyzzy") && start.output_style === "s"), {
  "CLAUDE.md": "xyzzy",
  ".claude/settings.json": '{"outputStyle":"s"}',
});
option("skills", { skills: "all", settingSources: ["project"] }, ({ start }) => assert.ok(start.skills.includes("haiku")), {
  ".claude/skills/haiku/SKILL.md": "---\nname: haiku\ndescription: Writes\n---\nWrite.",
});
option("strictMcpConfig", { strictMcpConfig: true }, ({ start }) => assert.deepEqual(start.mcp_servers, []), {
  ".mcp.json": '{"mcpServers":{"x":{"command":"/no/such"}}}',
});
option("systemPrompt_list", { systemPrompt: ["First part.", "Second part."] }, ({ request }) => {
  assert.ok(json(request.system).includes("First part.") && json(request.system).includes("Second part."));
});
option("systemPrompt_custom", { systemPrompt: { type: "custom", prompt: "Only this." } }, ({ request }) => assert.ok(json(request.system).includes("Only this.")));
option("systemPrompt_none", {}, ({ request }) => assert.ok(json(request.system ?? "").length < 600));
option("taskBudget", { taskBudget: { total: 60_000 }, model: "claude-opus-4-5" }, ({ request }) => assert.deepEqual(request.output_config.task_budget, { type: "tokens", total: 60_000 }));
option("thinking_adaptive", { thinking: { type: "adaptive", display: "summarized" }, model: "claude-opus-5" }, ({ request }) => {
  assert.deepEqual(request.thinking, { type: "adaptive", display: "summarized" });
});
option("thinking_disabled", { thinking: { type: "disabled" }, model: "claude-sonnet-4-5" }, ({ request }) => assert.ok(!request.thinking || request.thinking.type === "disabled"));
option("title", { title: "A name", toolAliases: {}, toolConfig: { askUserQuestion: { previewFormat: "html" } } });
option("tools_none", { tools: [] }, ({ request }) => assert.ok(!(request.tools ?? []).some((it) => ["Bash", "Read", "Write"].includes(it.name))));
option("tools_some", { tools: ["Read", "Glob"] }, ({ start }) => assert.ok(start.tools.includes("Glob") && !start.tools.includes("Bash")));
option("tools_preset", { tools: { type: "preset", preset: "claude_code" } }, ({ start }) => assert.ok(start.tools.includes("Bash")));
option("verbatimPrompts", { verbatimPrompts: true }, ({ request }) => assert.ok(!json(request).includes("MARKER")), { "n.txt": "MARKER" }, "see @n.txt");
option("mentions", {}, ({ request }) => assert.ok(json(request).includes("MARKER")), { "n.txt": "MARKER" }, "see @n.txt");
option("logLevel", { mcpServers: { gone: { command: "/no/such/program", logLevel: "debug" } } }, ({ start }) => assert.equal(start.mcp_servers[0].status, "failed"));

add("option_spawnClaudeCodeProcess", [text("ok")], async (t) => {
  const { spawn } = await import("node:child_process");
  const spawned = [];
  const spawnClaudeCodeProcess = (it) => {
    spawned.push(it.command);
    return spawn(it.command, it.args, { cwd: it.cwd, env: it.env, stdio: ["pipe", "pipe", "ignore"], signal: it.signal });
  };
  assert.equal(last(await t.run("go", { spawnClaudeCodeProcess })).result, "ok");
  assert.equal(spawned.length, 1);
});

add("option_resumeSessionAt", [text("One."), text("Two."), text("Three.")], async (t) => {
  const first = await t.run("alpha");
  const session = last(first).session_id;
  await t.run("beta", { resume: session });
  await t.run("gamma", { resume: session, resumeSessionAt: first.find((it) => it.type === "assistant").uuid });
  const said = json((await t.requests())[2].messages);
  assert.ok(said.includes("alpha") && !said.includes("beta") && said.includes("gamma"));
  await assert.rejects(t.run("x", { resume: session, resumeSessionAt: "00000000-0000-4000-8000-000000000000" }), /No message found/);
  t.noise.length = 0;
});

add("option_continue", [text("One."), text("Two.")], async (t) => {
  const first = last(await t.run("alpha"));
  const second = last(await t.run("beta", { continue: true }));
  assert.equal(second.session_id, first.session_id);
  assert.equal(second.total_cost_usd > first.total_cost_usd, true);
});

// Methods of a query

add("files_are_read", [text("ok")], async (t) => {
  fs.writeFileSync(t.path("picture.bin"), Buffer.from([0xff, 0x00, 0x41]));
  await turns(t, {}, ["a"], async (running) => {
    const read = await running.readFile("a.txt");
    assert.deepEqual([read.contents, read.absPath, read.lossy], ["hello\n", t.path("a.txt"), false]);
    const cut = await running.readFile("a.txt", { maxBytes: 2 });
    assert.deepEqual([cut.contents, cut.truncated], ["he", true]);
    const bytes = await running.readFile("picture.bin", { encoding: "base64" });
    assert.deepEqual([bytes.contents, bytes.encoding], ["/wBB", "base64"]);
    assert.equal((await running.readFile("picture.bin")).lossy, true);
    for (const hidden of ["nothing", "/etc/hostname", "secret.txt"]) {
      const found = await running.readFile(hidden).catch(() => null);
      assert.equal(found, null, hidden);
    }
  });
}, { "a.txt": "hello\n", "secret.txt": "s", ".claude/settings.json": '{"permissions":{"deny":["Read(./secret.txt)"]}}' });

add("what_was_read_elsewhere_counts", [text("One."), tool("Edit", { file_path: "$WS/a.txt", old_string: "one", new_string: "two" }), text("Two."),
  tool("Edit", { file_path: "$WS/b.txt", old_string: "one", new_string: "two" }), text("Three.")], async (t) => {
  await turns(t, { permissionMode: "acceptEdits" }, ["a", "b", "c"], async (running, count) => {
    if (count === 1) await running.seedReadState(t.path("a.txt"), Math.floor(fs.statSync(t.path("a.txt")).mtimeMs));
    // An older look at a file that changed since is worth nothing.
    if (count === 2) await running.seedReadState(t.path("b.txt"), 1);
  });
  assert.deepEqual([t.read("a.txt"), t.read("b.txt")], ["two\n", "one\n"]);
}, { "a.txt": "one\n", "b.txt": "one\n" });

add("settings_are_written", [text("One."), text("Two.")], async (t) => {
  const [, two] = await turns(t, { settingSources: ["local"] }, ["a", "b"], async (running, count) => {
    if (count !== 1) return;
    await running.updateSettings("localSettings", { outputStyle: "written" });
    await assert.rejects(running.updateSettings("localSettings", { permissions: { allow: ["Bash"] } }));
    await assert.rejects(running.updateSettings("userSettings", { effortLevel: "low" }));
  });
  assert.equal(init(two).output_style, "written");
});

add("it_can_be_introduced_again", [text("ok")], async (t) => {
  const [one] = await turns(t, {}, ["a"], async (running) => {
    const first = await running.initializationResult();
    const again = await running.reinitialize();
    assert.deepEqual(again.commands.map((it) => it.name), first.commands.map((it) => it.name));
    assert.ok((await running.reloadSkills()).skills && (await running.reloadOutputStyles()).available_output_styles);
    assert.equal((await running.reloadPlugins()).error_count, 0);
    const used = await running.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET();
    assert.ok(used.session.total_cost_usd > 0 && used.rate_limits_available === false);
    await assert.rejects(running.reconnectMcpServer("nobody"), /Server not found: nobody/);
    await assert.rejects(running.readMcpResource("nobody", "ui://x"));
    await running.stopTask("nobody");
    await running.backgroundTasks();
  });
  assert.equal(last(one).result, "ok");
});

add("input_may_be_streamed_later", [text("One."), text("Two.")], async (t) => {
  const input = new Prompts();
  const running = t.query(input, {});
  input.say("first");
  const said = [];
  for await (const message of running) {
    if (message.type !== "result") continue;
    said.push(message.result);
    if (said.length === 1) {
      await running.streamInput((async function* () {
        yield { type: "user", message: { role: "user", content: "second" }, parent_tool_use_id: null, session_id: "" };
      })());
      input.end();
    }
  }
  assert.deepEqual(said, ["One.", "Two."]);
});

add("commands_go_to_the_background", [bash("while [ ! -e go ]; do sleep 0.05; done; echo woken"), text("Moved."), text("Over.")], async (t) => {
  const input = new Prompts();
  const running = t.query(input, { allowedTools: ["Bash"] });
  input.say("go");
  const seen = [];
  for await (const message of running) {
    seen.push(message);
    if (message.type === "assistant" && message.message.content[0].type === "tool_use") {
      const moved = setInterval(() => running.backgroundTasks().catch(() => {}), 50);
      seen.stop = () => clearInterval(moved);
    }
    if (message.type !== "result") continue;
    seen.stop();
    if (message.result === "Moved.") fs.writeFileSync(t.path("go"), "");
    else input.end();
  }
  const [started] = systems(seen, "task_started");
  const [ended] = systems(seen, "task_notification");
  assert.deepEqual([started.task_type, ended.task_id, ended.status], ["local_bash", started.task_id, "completed"]);
  assert.deepEqual(last(seen).origin.kind, "task-notification");
});

add("every_prompt_has_its_result", [text("One."), text("Two."), text("Three.")], async (t) => {
  const input = new Prompts();
  const names = [1, 2, 3].map((n) => `4444444${n}-4444-4444-8444-444444444444`);
  const running = t.query(input, {});
  for (const [at, uuid] of names.entries()) input.say(`prompt ${at}`, { uuid });
  input.end();
  const ends = [];
  for await (const message of running) if (message.type === "result") ends.push(message);
  const answered = ends.flatMap((it) => it.user_message_uuids ?? []);
  assert.deepEqual(answered, names, json(ends));
});

add("what_is_said_meanwhile_is_answered_with_it", [bash("while [ ! -e go ]; do sleep 0.05; done"), text("Both.")], async (t) => {
  const input = new Prompts();
  const running = t.query(input, { allowedTools: ["Bash"] });
  const uuid = "66666666-6666-4666-8666-666666666666";
  const states = [];
  input.say("go");
  let end;
  for await (const message of running) {
    if (message.type === "command_lifecycle") states.push(message.state);
    if (message.type === "assistant" && message.message.content[0].type === "tool_use") input.say("and this", { uuid });
    // The call goes on when the prompt has arrived.
    if (states.length === 1) fs.writeFileSync(t.path("go"), "");
    if (message.type !== "result") continue;
    end = message;
    input.end();
  }
  assert.deepEqual([end.result, end.num_turns, end.user_message_uuids, states], ["Both.", 2, [uuid], ["queued", "started", "completed"]]);
  assert.ok(json((await t.requests())[1].messages.at(-1)).includes("and this"));
});

add("an_interrupt_says_what_is_still_queued", [stall(text("begun")), text("Two.")], async (t) => {
  const input = new Prompts();
  const running = t.query(input, {});
  const uuid = "55555555-5555-4555-8555-555555555555";
  input.say("go");
  const ends = [];
  let receipt;
  for await (const message of running) {
    if (message.type === "assistant" && !receipt) {
      input.say("later", { uuid });
      await new Promise((resolve) => setTimeout(resolve, 100));
      receipt = await running.interrupt();
    }
    if (message.type !== "result") continue;
    ends.push(message);
    if (ends.length === 2) input.end();
  }
  assert.deepEqual(receipt.still_queued, [uuid]);
  assert.deepEqual([ends[0].terminal_reason, ends[1].result, ends[1].user_message_uuids], ["aborted_streaming", "Two.", [uuid]]);
});

// Permissions and hooks

add("permissionPromptToolName", [write("a.txt"), bash("touch b"), text("Done.")], async (t) => {
  const auth = createSdkMcpServer({
    name: "auth",
    tools: [
      sdkTool("decide", "Decides", { tool_name: z.string(), input: z.any(), tool_use_id: z.string().optional() }, async (args) => {
        const answer = args.tool_name === "Write" ? { behavior: "allow", updatedInput: args.input } : { behavior: "deny", message: "no shell" };
        return { content: [{ type: "text", text: json(answer) }] };
      }),
    ],
  });
  const seen = await t.run("go", { mcpServers: { auth }, permissionPromptToolName: "mcp__auth__decide" });
  assert.ok(t.has("a.txt") && !t.has("b"));
  assert.equal(results(seen)[1].content, "no shell");
});

add("permissionPrompts_none", [write("a.txt"), text("Done.")], async (t) => {
  const seen = await t.run("go", { permissionPrompts: "none" });
  assert.ok(results(seen)[0].is_error && !t.has("a.txt") && systems(seen, "permission_denied").length === 1);
});

add("a_question_can_be_abandoned", [write("a.txt"), text("Next.")], async (t) => {
  const input = new Prompts();
  let aborted = false;
  const canUseTool = (name, data, { signal }) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        aborted = true;
        resolve({ behavior: "allow" });
      });
      running.interrupt();
    });
  const running = t.query(input, { canUseTool });
  input.say("go");
  const ends = [];
  for await (const message of running) {
    if (message.type !== "result") continue;
    ends.push(message);
    if (ends.length === 1) input.say("next");
    else input.end();
  }
  assert.deepEqual([ends[0].terminal_reason, ends[1].result, aborted, t.has("a.txt")], ["aborted_tools", "Next.", true, false]);
});

const EVENTS = ["UserPromptExpansion", "StopFailure", "PostCompact", "PreModelSwitch", "PostModelSwitch", "PermissionDenied", "Setup", "TeammateIdle", "TaskCreated",
  "TaskCompleted", "Elicitation", "ElicitationResult", "ConfigChange", "WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged",
  "DirectoryAdded", "SessionStart", "SessionEnd", "SubagentStart", "SubagentStop", "PreCompact", "Notification", "PermissionRequest", "SomethingNew"];
add("hooks_for_every_event_are_accepted", [write("a.txt"), text("ok")], async (t) => {
  const seen = [];
  const hooks = Object.fromEntries(EVENTS.map((event) => [event, [{ hooks: [async (input) => (seen.push(input.hook_event_name), {})] }]]));
  assert.equal(last(await t.run("go", { hooks })).result, "ok");
  assert.ok(seen.includes("PermissionRequest") && seen.includes("PermissionDenied") && seen.includes("SessionStart"), json(seen));
});

add("hooks_time_out", [bash("touch a"), text("Done.")], async (t) => {
  let aborted = false;
  const hang = (input, id, { signal }) =>
    new Promise((resolve) => signal.addEventListener("abort", () => ((aborted = true), resolve({}))));
  const seen = await t.run("go", { hooks: { PreToolUse: [{ hooks: [hang], timeout: 0.3 }] }, allowedTools: ["Bash"] });
  assert.ok(results(seen)[0].is_error && !t.has("a") && aborted);
});

add("several_servers_with_the_same_tools", [both(tool("mcp__a__who"), tool("mcp__b_c__who")), text("Done.")], async (t) => {
  const who = (name) => createSdkMcpServer({ name, tools: [sdkTool("who", "Says who", {}, async () => ({ content: [{ type: "text", text: `I am ${name}` }] }))] });
  const seen = await t.run("go", { mcpServers: { a: who("a"), "b c": who("bc") }, allowedTools: ["mcp__a__*", "mcp__b_c__who"] });
  assert.deepEqual(results(seen).map((it) => json(it.content).match(/I am \w+/)[0]), ["I am a", "I am bc"]);
});

add("errors_of_tools_are_results", [both(tool("mcp__x__thrown"), tool("mcp__x__said"), tool("mcp__x__strict", { n: "word" }), tool("mcp__x__nothing")), text("Done.")], async (t) => {
  const x = createSdkMcpServer({
    name: "x",
    tools: [
      sdkTool("thrown", "", {}, async () => { throw new Error("thrown error"); }),
      sdkTool("said", "", {}, async () => ({ content: [{ type: "text", text: "said error" }], isError: true })),
      sdkTool("strict", "", { n: z.number() }, async () => ({ content: [] })),
      sdkTool("nothing", "", {}, async () => ({ content: [] })),
    ],
  });
  const seen = await t.run("go", { mcpServers: { x }, allowedTools: ["mcp__x"] });
  const [thrown, said, strict, nothing] = results(seen);
  assert.ok(thrown.is_error && json(thrown).includes("thrown error") && said.is_error && json(said).includes("said error"));
  assert.ok(strict.is_error && !nothing.is_error && last(seen).result === "Done.");
});

// Seed 002: every block of TypeScript, word for word. What the blocks talk to is not there, so their
// handlers are not called; what they make is a tool the model is told of.

const shared = process.env.HAFT_SDK_DOCUMENTS ?? "";
const seeds = shared && fs.existsSync(path.join(shared, "seeds")) ? fs.readdirSync(path.join(shared, "seeds")).filter((it) => it.startsWith("002_")) : [];
const seedText = seeds.length ? fs.readFileSync(path.join(shared, "seeds", seeds[0]), "utf8") : "";
const blocks = [...seedText.matchAll(/```typescript\n([\s\S]*?)```/g)].map((it) => it[1]);
const plain = (code) => code.replaceAll(" as const", "").replace(/^import .*$/gm, "");

/** What a block makes, in a program around it. */
const around = (code) => {
  const body = plain(code);
  const trimmed = body.trim();
  if (trimmed.startsWith("options:")) return `const made = { ${trimmed} }; return { options: made.options };`;
  if (trimmed.startsWith("async (args)")) return `return { handler: ${trimmed} };`;
  if (trimmed.startsWith("{")) return `return { schema: ${trimmed} };`;
  if (trimmed.includes("...)")) return "return {};";
  const named = ["customServer", "calculatorTool", "apiTool", "dbTool", "csvTool"].filter((it) => code.includes(`const ${it}`));
  return `${body}\nreturn { ${named.join(", ")} };`;
};

const server = () => createSdkMcpServer({ name: "s", tools: [sdkTool("get_weather", "Weather", {}, async () => ({ content: [{ type: "text", text: "mild" }] }))] });
blocks.forEach((code, number) => {
  const asks = code.includes("for await");
  const script = asks ? [text("Done."), text("Done.")] : [text("Done.")];
  add(`seed_block_${number}`, script, async (t) => {
    const said = [];
    const console = { log: (...words) => said.push(words) };
    const asked = ({ prompt, options }) => query({ prompt, options: t.options(options) });
    const scope = { query: asked, tool: sdkTool, createSdkMcpServer, z, console, customServer: server(), githubServer: server(), dbServer: server(), serverConfig: {},
      prompt: "What is here?", options: {}, performOperation: async () => ({}), API_KEY: "", db: {} };
    const own = ["customServer"].filter((it) => code.includes(`const ${it}`));
    const names = Object.keys(scope).filter((it) => !own.includes(it));
    const AsyncFunction = (async () => {}).constructor;
    const made = await new AsyncFunction(...names, around(code))(...names.map((it) => scope[it]));
    const tools = Object.values(made ?? {}).filter((it) => it?.handler && it?.inputSchema);
    const mcpServers = { ...(made?.options?.mcpServers ?? {}), ...(tools.length ? { t: createSdkMcpServer({ name: "t", tools }) } : {}) };
    if (made?.customServer) mcpServers["my-custom-tools"] = made.customServer;
    for (const name of Object.keys(mcpServers)) if (!mcpServers[name].instance) delete mcpServers[name];
    const seen = await t.run("What is here?", { ...(made?.options ?? {}), mcpServers });
    assert.equal(last(seen).result, "Done.");
    assert.deepEqual(init(seen).mcp_servers.map((it) => it.status), Object.keys(mcpServers).map(() => "connected"));
    // The SDK leaves out tools whose schema its own zod cannot convert.
    const isLeftOut = code.includes("z.record(z.any())");
    for (const it of tools) assert.equal(init(seen).tools.includes(`mcp__t__${it.name}`), !isLeftOut);
    if (code.includes("console.log(message.result)")) assert.deepEqual(said, [["Done."]]);
    if (code.includes("Available tools:")) assert.equal(said.length, 1);
  });
});
