// A tour of the TypeScript Agent SDK with Haft as the executable.
//
//     npm install @anthropic-ai/claude-agent-sdk zod
//     HAFT=/path/to/haft node tour.mjs
//
// Everything here is the SDK's own; only `pathToClaudeCodeExecutable` says who does the work.

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const pathToClaudeCodeExecutable = process.env.HAFT ?? "haft";

async function run(prompt, options = {}) {
  for await (const message of query({ prompt, options: { pathToClaudeCodeExecutable, ...options } })) {
    if (message.type === "system" && message.subtype === "init") {
      console.log("servers:", message.mcp_servers.map((it) => `${it.name} ${it.status}`).join(", "));
    } else if (message.type === "result") {
      console.log("result:", message.subtype, message.result);
    }
  }
}

await run("Say hello");

const add = tool("add", "Adds two numbers", { a: z.number(), b: z.number() }, async ({ a, b }) => {
  console.log("add:", a, b);
  return { content: [{ type: "text", text: String(a + b) }] };
});

async function* prompts() {
  yield { type: "user", message: { role: "user", content: "Add 1 and 2, then write it down" } };
}

await run(prompts(), {
  mcpServers: { calc: createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] }) },
  allowedTools: ["mcp__calc__*"],
  hooks: {
    PreToolUse: [{ matcher: "mcp__.*", hooks: [async (input) => (console.log("hook:", input.tool_name), {})] }],
  },
  canUseTool: async (name, input) => {
    console.log("asked:", name);
    return { behavior: "allow", updatedInput: { ...input, content: "from the host" } };
  },
});
