// A whole turn and a load, by the TypeScript SDK, which checks what it reads. Prints one report.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const agent = spawn(process.env.HAFT, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { asked: 0, words: "", diffs: [] };
const { agent: of } = acp.methods;

await acp
  .client({ name: "test" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked += 1;
    for (const it of params.toolCall.content ?? []) if (it.type === "diff") seen.diffs.push([it.oldText, it.newText]);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") seen.words += update.content.text;
  })
  .connectWith(stream, async (ctx) => {
    await ctx.request(of.initialize, { protocolVersion: 1, clientCapabilities: {} });
    const place = { cwd: process.cwd(), mcpServers: [] };
    const { sessionId } = await ctx.request(of.session.new, place);
    const prompt = [{ type: "text", text: "go" }];
    const { stopReason } = await ctx.request(of.session.prompt, { sessionId, prompt });
    const words = seen.words;
    seen.words = "";
    await ctx.request(of.session.load, { sessionId, ...place });
    const report = { stopReason, words, asked: seen.asked, diffs: seen.diffs, replayed: seen.words };
    process.stdout.write(JSON.stringify(report) + "\n");
  });
agent.stdin.end();
