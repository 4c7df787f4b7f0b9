#!/usr/bin/env node
// Starts the program of the platform's own package and is out of the way:
// arguments, terminal, exit code and signals are its own.
"use strict";
const { spawn } = require("node:child_process");
const path = require("node:path");

const platforms = { "linux x64": "haft-linux-x64" };
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
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
// A terminal sends these to both; what is sent to us alone goes on to the program.
for (const signal of signals) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  });
}
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
