// What the TypeScript Agent SDK says when it starts the program: options delivered in `initialize`,
// flags of a newer version, policies for tools, prompts without an answer.

import assert from "node:assert/strict";
import { createSdkMcpServer, tool as sdkTool } from "@anthropic-ai/claude-agent-sdk";
import { add, both, init, json, last, Prompts, results, text, tool, turns } from "./harness.mjs";

const bash = (command) => tool("Bash", { command });

add("launch_everything_in_initialize", [both(bash("touch made"), bash("touch never")), text("Done.")], async (t) => {
  const [seen] = await turns(t, {
    mcpServers: { gone: { command: "/no/such/program", env: { KEY: "secret" } } },
    mcpServersDelivery: "initialize",
    settings: { permissions: { allow: ["Bash(touch *)"] }, outputStyle: "delivered" },
    settingsDelivery: "initialize",
    managedSettings: { permissions: { deny: ["Bash(touch never)"] } },
    managedSettingsDelivery: "initialize",
    disallowedTools: ["Grep"],
    disallowedToolsDelivery: "initialize",
    plugins: [{ type: "local", path: t.path("plug") }],
    pluginDelivery: "initialize",
  }, ["go"], async (running) => {
    const answer = await running.initializationResult();
    for (const field of ["mcp_servers", "settings", "managed_settings", "disallowed_tools", "plugins"]) {
      assert.equal(answer[`${field}_applied`], true, field);
    }
  });
  const start = init(seen);
  assert.deepEqual(start.mcp_servers.map((it) => it.name), ["gone"]);
  assert.ok(start.output_style === "delivered" && !start.tools.includes("Grep"));
  assert.ok(start.plugins.some((it) => it.name === "plug"));
  assert.ok(!json((await t.requests())[0].tools).includes('"Grep"'));
  assert.ok(t.has("made") && !t.has("never"));
  t.noise.splice(0);
}, { "plug/.claude-plugin/plugin.json": '{"name":"plug"}' });

add("launch_servers_alone_in_initialize", [text("ok")], async (t) => {
  const seen = await t.run("go", {
    mcpServers: { gone: { command: "/no/such/program" }, here: createSdkMcpServer({ name: "here", tools: [] }) },
    mcpServersDelivery: "initialize",
    strictMcpConfig: true,
  });
  assert.deepEqual(init(seen).mcp_servers.map((it) => it.name).sort(), ["gone", "here"]);
  assert.equal(last(seen).result, "ok");
}, { ".mcp.json": '{"mcpServers":{"x":{"command":"/no/such"}}}' });

add("launch_flags_of_a_newer_version", [text("ok")], async (t) => {
  const extraArgs = { "future-flag": null, "future-mode": "update", "nested-model-access": null, "debug-to-stderr": null };
  const seen = await t.run("go", { extraArgs });
  assert.equal(last(seen).result, "ok");
  const noise = t.noise.splice(0).join("");
  assert.equal(noise, "haft: ignored the unknown option --future-flag\nhaft: ignored the unknown option --future-mode\n");
});

add("tool_policies_of_a_server", [both(tool("mcp__s__ask"), tool("mcp__s__deny"), tool("mcp__s__free")), text("Done.")], async (t) => {
  const called = [];
  const named = (name) => sdkTool(name, "Does it.", {}, async () => (called.push(name), { content: [{ type: "text", text: "ok" }] }));
  const server = createSdkMcpServer({ name: "s", tools: ["ask", "deny", "free"].map(named) });
  server.tools = [{ name: "ask", permission_policy: "always_ask" }, { name: "deny", permission_policy: "always_deny" }];
  const asked = [];
  const canUseTool = async (name, input) => (asked.push(name), { behavior: "allow", updatedInput: input });
  const seen = await t.run("go", { mcpServers: { s: server }, allowedTools: ["mcp__s"], canUseTool });
  assert.deepEqual([asked, called.sort()], [["mcp__s__ask"], ["ask", "free"]]);
  assert.equal(results(seen).filter((it) => it.is_error).length, 1);
});

add("a_prompt_without_an_answer_has_a_result", [text("Heard both.")], async (t) => {
  const input = new Prompts();
  input.say("Remember xyzzy.", { shouldQuery: false });
  const seen = [];
  for await (const message of t.query(input)) {
    if (message.type !== "result") continue;
    seen.push(message);
    if (seen.length === 1) input.say("go");
    else input.end();
  }
  assert.deepEqual(seen.map((it) => [it.subtype, it.result, it.num_turns]), [["success", "", 0], ["success", "Heard both.", 1]]);
  assert.ok(json((await t.requests())[0].messages).includes("xyzzy"));
});
