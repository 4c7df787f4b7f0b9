// Looks at a hostile log in Chromium from all sides, and says what it could do.
// Arguments: the address, the log, and the same log as a file for itself.
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [address, log, file] = process.argv.slice(2);
const home = new URL(address).origin;
const problems = [];
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(where, context) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const own = [home, "blob:", `file://${file}`];
  page.on("request", (it) => own.every((start) => !it.url().startsWith(start)) && problems.push(`asked for ${it.url().slice(0, 100)}`));
  page.on("dialog", (it) => (problems.push(`a dialog: ${it.message()}`), it.dismiss()));
  page.on("popup", () => problems.push("a second page"));
  page.on("pageerror", (it) => problems.push(`an error: ${it}`));
  page.on("console", (it) => ["error", "warning"].includes(it.type()) && problems.push(`the console: ${it.text()}`));
  page.on("framenavigated", (it) => it === page.mainFrame() && !own.some((start) => it.url().startsWith(start)) && problems.push(`went to ${it.url()}`));
  await page.goto(where);
  return page;
}

/** What of the log became more than text. */
async function judge(page, where) {
  const found = await page.evaluate(() => {
    const wrong = [];
    if (globalThis.harmed) wrong.push(`a script ran (${globalThis.harmed})`);
    for (const it of document.querySelectorAll("script:not([src^='/']), iframe, base, form[action], object, embed, body style")) wrong.push(it.outerHTML.slice(0, 100));
    for (const it of document.querySelectorAll("*")) {
      for (const { name, value } of it.attributes) {
        if (name.startsWith("on")) wrong.push(`${it.tagName} has ${name}`);
        if (/^\s*(javascript|data):/i.test(value) && ["href", "src", "action", "formaction", "xlink:href"].includes(name) && !/^data:image\/(png|jpeg|gif|webp)/.test(value)) wrong.push(`${it.tagName} leads to ${value.slice(0, 60)}`);
      }
    }
    return wrong;
  });
  for (const it of found) problems.push(`${where}: ${it}`);
}

async function look(page, where) {
  await page.locator("article").first().waitFor();
  const folded = page.locator("details[data-detail]:not([open]) > summary");
  for (let left = Math.min(await folded.count(), 12); 0 < left; left -= 1) await folded.first().click();
  await page.waitForFunction(() => [...document.querySelectorAll("details[data-detail][open] .body")].every((it) => it.childNodes.length));
  await judge(page, `${where}, conversation`);
}

const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await open(address, context);
await page.locator("#tab-conversation").waitFor();
await look(page, "read");
for (const pane of ["timeline", "cost", "window", "files", "permission", "agents"]) {
  await page.click(`#tab-${pane}`);
  await page.waitForFunction((pane) => document.querySelector(`#tab-${pane}`).ariaSelected === "true" && document.querySelector("#pane").childElementCount > 0 && !document.querySelector("#pane .rows, #pane.waiting"), pane);
  await judge(page, pane);
}
await page.fill("#words", "harmed");
await page.press("#words", "Enter");
await page.locator("#hits li button").first().waitFor();
await judge(page, "search");
await page.locator("#hits li button").first().click();
await page.locator("article.found").waitFor();

// It grows by itself, by half a line, by what is no text, and by a line without an end.
const text = readFileSync(log);
const rows = () => page.evaluate(() => Number(document.querySelector("[data-row]")?.ariaSetSize ?? 0));
const before = await rows();
for (const piece of [text.subarray(0, 700), text.subarray(700), Buffer.from([0xff, 0xfe, 0, 10]), Buffer.alloc(300_000, "{"), "\n", text]) appendFileSync(log, piece);
await page.waitForFunction((before) => before < Number([...document.querySelectorAll("[data-row]")].at(-1)?.ariaSetSize ?? 0), before);
await look(page, "grown");
// It is cut in the middle of a line, and written anew.
truncateSync(log, Math.floor(text.length / 2) - 100);
await page.waitForFunction((before) => Number(document.querySelector("[data-row]")?.ariaSetSize ?? before) < before, before);
await look(page, "cut");
writeFileSync(log, text);
await page.waitForFunction((before) => Number(document.querySelector("[data-row]")?.ariaSetSize ?? 0) === before, before);
await look(page, "anew");
await page.click("#all-sessions");
await page.locator("#pane:not(.waiting) #all").waitFor();
await judge(page, "all sessions");
await page.close();

// The file needs nobody.
await context.setOffline(true);
const alone = await open(`file://${file}`, context);
await judge(alone, "the file");
if ((await alone.locator("article").count()) === 0) problems.push("the file shows nothing");
await browser.close();
process.stdout.write(problems.length === 0 ? "fine\n" : `${[...new Set(problems)].join("\n")}\n`);
