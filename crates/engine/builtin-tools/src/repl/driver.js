delete process.env.HAFT_DRIVER;
const inspector = require("inspector");
const net = require("net");
const util = require("util");
const vm = require("vm");

const session = new inspector.Session();
session.connect();
const channel = new net.Socket({ fd: 3, readable: true, writable: true });
let waiting = Buffer.alloc(0);
let running = null;

const post = (method, params, done) => session.post(method, params, (error, result) => done({ error, ...result }));

// The inspector names values; this gets hold of them.
function take(value, done) {
  if (!value.objectId) {
    const special = value.unserializableValue;
    return done(special ? (special.endsWith("n") ? BigInt(special.slice(0, -1)) : Number(special)) : value.value);
  }
  const store = "function () { globalThis[Symbol.for('haft')] = this }";
  post("Runtime.callFunctionOn", { functionDeclaration: store, objectId: value.objectId }, () => {
    const taken = globalThis[Symbol.for("haft")];
    delete globalThis[Symbol.for("haft")];
    done(value.type === "symbol" ? Object(taken).valueOf() : taken);
  });
}

function told(done, answer) {
  if (done.error) return answer({ ok: false, error: done.error.message });
  const thrown = done.exceptionDetails;
  if (thrown && !thrown.exception) return answer({ ok: false, error: thrown.text });
  if (!thrown && done.result.type === "undefined") return answer({ ok: true });
  take(thrown ? thrown.exception : done.result, (value) => {
    if (!thrown) return answer({ ok: true, value: util.inspect(value) });
    const isError = value instanceof Error || thrown.exception.subtype === "error";
    answer({ ok: false, error: isError ? clean(value) : "Uncaught " + util.inspect(value) });
  });
}

// What is ours in a stack says nothing about the code.
function clean(error) {
  const lines = String((error && error.stack) || error).split("\n");
  const ours = lines.findIndex((line) => /\[eval\]|node:/.test(line));
  return (ours < 0 ? lines : lines.slice(0, Math.max(ours, 1))).join("\n");
}

// Only this module lets a signal break into an endless loop.
function breakable(run) {
  globalThis.__haft = run;
  vm.runInThisContext("{ const run = __haft; delete globalThis.__haft; run() }", { breakOnSigint: true });
}

function start(code) {
  const mine = (running = {});
  mine.answer = (it) => {
    if (running !== mine) return;
    running = null;
    channel.write(JSON.stringify(it) + "\0");
    next();
  };
  const params = { expression: code, replMode: true, awaitPromise: true, objectGroup: "haft" };
  try {
    breakable(() => post("Runtime.evaluate", params, (done) => running === mine && told(done, mine.answer)));
  } catch (error) {
    const interrupted = error && error.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED";
    mine.answer({ ok: false, error: interrupted ? "Interrupted" : clean(error) });
  }
}

function next() {
  const end = waiting.indexOf(0);
  if (running || end < 0) return;
  const code = waiting.subarray(0, end).toString("utf8");
  waiting = waiting.subarray(end + 1);
  start(code);
}

channel.on("data", (part) => {
  waiting = Buffer.concat([waiting, part]);
  next();
});
channel.on("end", () => process.exit(0));
process.on("SIGINT", () => running && running.answer({ ok: false, error: "Interrupted" }));
process.on("uncaughtException", (error) => console.error("Uncaught", error));
process.on("unhandledRejection", (error) => console.error("Unhandled rejection:", error));
