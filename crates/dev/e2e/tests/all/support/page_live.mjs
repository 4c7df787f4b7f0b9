// Follows a session in Chromium and says what is wrong with its page.
// Arguments: the address, the log, a directory for pictures or nothing.
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const [address, log, pictures] = process.argv.slice(2);
const home = new URL(address).origin;
const problems = [];
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(options) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(120_000);
  page.on("request", (it) => !it.url().startsWith(home) && !it.url().startsWith("blob:") && problems.push(`asked for ${it.url().slice(0, 100)}`));
  page.on("dialog", (it) => (problems.push(`a dialog: ${it.message()}`), it.dismiss()));
  page.on("pageerror", (it) => problems.push(`an error: ${it}`));
  page.on("console", (it) => ["error", "warning"].includes(it.type()) && problems.push(`the console: ${it.text()}`));
  await page.goto(address);
  return page;
}

async function judge(page, where) {
  const found = await page.evaluate(async () => (await globalThis.axe.run()).violations);
  for (const it of found) problems.push(`${where} ${it.id}: ${it.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
}

const panes = ["timeline", "cost", "window", "files", "permission", "agents"];
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 420]) {
    // Axe needs a script in the page, which the page itself would refuse.
    const page = await open({ colorScheme, bypassCSP: true, viewport: { width, height: 900 }, reducedMotion: "reduce" });
    await page.locator("article").first().waitFor();
    await page.addScriptTag({ path: require.resolve("axe-core/axe.min.js") });
    const shot = async (name) => pictures && (await page.screenshot({ path: `${pictures}/${name}-${colorScheme}-${width}.png` }));
    const folded = page.locator("details[data-detail] > summary");
    for (let at = 0; at < Math.min(await folded.count(), 6); at += 1) {
      await folded.nth(at).click();
      await page.locator("details[open] .body > *").first().waitFor();
    }
    await page.evaluate(() => scrollTo(0, 0));
    await judge(page, `conversation ${colorScheme}`);
    await shot("conversation");
    for (const pane of panes) {
      await page.click(`#tab-${pane}`);
      await page.waitForFunction((pane) => document.querySelector(`#tab-${pane}`).ariaSelected === "true" && document.querySelector("#pane").childElementCount > 0 && !document.querySelector("#pane .rows, #pane.waiting"), pane);
      await judge(page, `${pane} ${colorScheme}`);
      await shot(pane);
    }
    if (width === 420) await page.click("#menu");
    await page.click("#all-sessions");
    await page.locator("#pane:not(.waiting) #all").waitFor();
    await judge(page, `all sessions ${colorScheme}`);
    await shot("all");
    await page.close();
  }
}

// As anybody opens it: nothing is refused, and everything works by keyboard.
const page = await open({});
await page.locator("article").first().waitFor();
if (page.url().includes("t=")) problems.push("the token stays in the address");
if ((await page.content()).includes(new URL(address).hash.slice(3, 40))) problems.push("the token is in the page");
await page.keyboard.press("/");
await page.keyboard.type("done");
await page.keyboard.press("Enter");
await page.locator("#hits li button").first().waitFor();
await page.locator("#hits li button").first().focus();
await page.keyboard.press("Enter");
await page.locator("article.found").waitFor();
await page.keyboard.press("j");
await page.locator("#tab-conversation").focus();
await page.keyboard.press("ArrowRight");
await page.waitForFunction(() => document.querySelector("#tab-timeline").ariaSelected === "true");
await page.keyboard.press("Home");
await page.locator("article").first().waitFor();

// What is written while somebody looks is shown, also in two pieces.
const rows = () => page.evaluate(() => Number([...document.querySelectorAll("[data-row]")].at(-1)?.dataset.row ?? -1));
const before = await rows();
const last = readFileSync(log, "utf8").trim().split("\n").reverse().map((it) => { try { return JSON.parse(it); } catch { return {}; } }).find((it) => it.type === "assistant");
const line = JSON.stringify({ ...last, uuid: "live", message: { ...last.message, id: "live", content: [{ type: "text", text: "Said while <b>somebody</b> looks." }] } });
const began = Date.now();
appendFileSync(log, line.slice(0, 40));
appendFileSync(log, `${line.slice(40)}\n`);
await page.getByText("Said while <b>somebody</b> looks.").first().waitFor();
const took = Date.now() - began;
if ((await rows()) !== before + 1) problems.push(`there are other rows than expected: ${before} ${await rows()}`);
await page.close();
await browser.close();
process.stdout.write(problems.length === 0 ? `fine, followed after ${took} ms\n` : problems.join("\n") + "\n");
