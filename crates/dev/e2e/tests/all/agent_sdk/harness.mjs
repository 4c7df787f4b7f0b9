// Runs cases of the TypeScript Agent SDK, several at once.
//
// Whoever started this program is told on standard output what each case needs, one JSON object
// per line, and answers on standard input: it plays the model.

import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { query } from "@anthropic-ai/claude-agent-sdk";

const CLI = process.env.HAFT_SDK_CLI;
const TOGETHER = 4;
const cases = [];
const waiting = new Map();
let count = 0;

const tell = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const ask = (message) =>
  new Promise((resolve) => {
    waiting.set(++count, resolve);
    tell({ id: count, ...message });
  });
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const answer = JSON.parse(line);
  waiting.get(answer.id)(answer);
  waiting.delete(answer.id);
});

export const text = (words) => ({ reply: [{ text: words }] });
export const tool = (name, input = {}) => ({ reply: [{ tool: { name, input } }] });
export const both = (...turns) => ({ reply: turns.flatMap((it) => it.reply) });
export const stall = (turn) => ({ reply: [...turn.reply, { stall: "forever" }] });
export const write = (name, content = "x") => tool("Write", { file_path: `$WS/${name}`, content });
export const add = (name, turns, run, files = {}) => cases.push({ name, turns, run, files });

class Case {
  constructor(name, place) {
    Object.assign(this, place, { name, noise: [] });
  }
  path = (name) => path.join(this.ws, name);
  has = (name) => fs.existsSync(this.path(name));
  read = (name) => fs.readFileSync(this.path(name), "utf8");
  options(more = {}) {
    const env = {
      PATH: process.env.PATH,
      HOME: this.home,
      ANTHROPIC_BASE_URL: this.url,
      ANTHROPIC_API_KEY: "key",
      DISABLE_TELEMETRY: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      ...more.env,
    };
    return { pathToClaudeCodeExecutable: CLI, cwd: this.ws, stderr: (it) => this.noise.push(it), ...more, env };
  }
  query = (prompt, more) => query({ prompt, options: this.options(more) });
  async run(prompt = "go", more = {}) {
    const seen = [];
    for await (const message of this.query(prompt, more)) seen.push(message);
    return seen;
  }
  requests = async () => (await ask({ op: "requests", case: this.name })).requests;
}

export const last = (seen) => seen.findLast((it) => it.type === "result");
export const init = (seen) => seen.find((it) => it.type === "system" && it.subtype === "init");
export const systems = (seen, subtype) => seen.filter((it) => it.type === "system" && it.subtype === subtype);
export const users = (seen) => seen.filter((it) => it.type === "user");
export const results = (seen) =>
  users(seen).flatMap((it) => (Array.isArray(it.message.content) ? it.message.content : [])).filter((it) => it.type === "tool_result");
export const json = JSON.stringify;

/** A stream of prompts that is fed from outside. */
export class Prompts {
  #queue = [];
  #wake = () => {};
  say(content, more = {}) {
    this.#queue.push({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "", ...more });
    this.#wake();
  }
  end() {
    this.#queue.push(null);
    this.#wake();
  }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#queue.length === 0) await new Promise((resolve) => (this.#wake = resolve));
      const next = this.#queue.shift();
      if (next === null) return;
      yield next;
    }
  }
}

/** Several turns; `each` is called with the query and the messages of each. */
export async function turns(t, options, prompts, each = async () => {}) {
  const input = new Prompts();
  const running = t.query(input, options);
  const all = [];
  input.say(prompts[0]);
  let seen = [];
  for await (const message of running) {
    seen.push(message);
    if (message.type !== "result") continue;
    all.push(seen);
    await each(running, all.length, seen);
    seen = [];
    if (all.length < prompts.length) input.say(prompts[all.length]);
    else input.end();
  }
  return all;
}

async function runOne({ name, turns, run, files }) {
  const t = new Case(name, await ask({ op: "begin", case: name, turns, files }));
  let problem = null;
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("too slow")), 240_000)));
  try {
    await Promise.race([run(t), late]);
  } catch (error) {
    problem = String(error.stack ?? error);
  }
  clearTimeout(timer);
  tell({ op: "done", case: name, problem, stderr: t.noise.join("") });
}

/** Runs everything that was added. */
export async function main() {
  const only = process.env.HAFT_SDK_CASE;
  const rest = cases.filter((it) => !only || it.name.includes(only));
  const worker = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await runOne(next);
  };
  await Promise.all(Array.from({ length: TOGETHER }, worker));
  tell({ op: "end" });
  process.exit(0);
}
