#!/usr/bin/env node
// Starts the program of the platform's own package and is out of the way:
// arguments, terminal, exit code and signals are its own.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const platforms = { "linux x64": "haft-linux-x64", "linux arm64": "haft-linux-arm64" };
const name = platforms[`${process.platform} ${process.arch}`];
if (!name) {
  console.error(`haft: there is no program for ${process.platform} on ${process.arch} yet`);
  process.exit(1);
}
let program;
try {
  program = path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "haft");
} catch {
  console.error(
    `haft: the package ${name} is missing; install again without --omit=optional (npm install -g haft)`,
  );
  process.exit(1);
}
// What is typed at a terminal it sends to everybody in front of it, so to the
// program too, whatever standard input is: a second one would end it at once.
// A terminal that went away in the meantime said what it said to everybody.
function terminal() {
  try {
    const fields = fs.readFileSync("/proc/self/stat", "utf8").replace(/^.*\) /s, "").split(" ");
    // Our process group, and that of the terminal.
    return { there: fields[4] !== "0", inFront: fields[2] === fields[5] };
  } catch {
    const there = Boolean(process.stdin.isTTY);
    return { there, inFront: there };
  }
}
const before = terminal();
function wasTyped(signal) {
  if (signal !== "SIGINT" && signal !== "SIGQUIT") return false;
  const now = terminal();
  return now.there ? now.inFront : before.inFront;
}
// What is sent to us alone goes on to the program. Heard before the program starts:
// a key that is typed meanwhile must not end us and leave it behind.
let child;
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
for (const signal of signals) {
  process.on(signal, () => {
    if (!wasTyped(signal)) child.kill(signal);
  });
}
child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
  console.error(`haft: ${program}: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    for (const it of signals) process.removeAllListeners(it);
    process.kill(process.pid, signal);
  } else {
    process.exit(code === null ? 1 : code);
  }
});
