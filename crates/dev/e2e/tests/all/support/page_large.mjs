// Goes through a long session in Chromium and says what is wrong: what is in the page and what is
// fetched stay small, however long the session is. Times are told, not judged.
// Arguments: the address, how many calls, a word that only one call has, and which row that is.
import { chromium } from "playwright-core";

const [address, calls, needle, wanted] = process.argv.slice(2);
const MOST_ROWS = 600; // of all that are in the page at one moment
const problems = [];
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(60_000);
page.on("pageerror", (it) => problems.push(`an error: ${it}`));
page.on("console", (it) => ["error", "warning"].includes(it.type()) && problems.push(`the console: ${it.text()}`));

let [bytes, fetched] = [0, 0];
page.on("response", async (answer) => {
  if (!answer.url().includes("/rows?")) return;
  fetched += 1;
  bytes += (await answer.body().catch(() => "")).length;
});

let most = 0;
const look = async () => {
  const here = await page.evaluate(() => {
    const rows = [...document.querySelectorAll("[data-row]")];
    const seen = rows.filter((it) => { const box = it.getBoundingClientRect(); return 0 < box.bottom && box.top < innerHeight; });
    return { rows: rows.length, nodes: document.querySelectorAll("*").length, first: Number(seen[0]?.dataset.row ?? -1) };
  });
  most = Math.max(most, here.rows);
  if (MOST_ROWS < here.rows) problems.push(`${here.rows} rows are in the page`);
  if (20 * MOST_ROWS < here.nodes) problems.push(`${here.nodes} elements are in the page`);
  return here;
};
/** Waits until the window shows rows. */
const settled = async (where) => {
  await page.waitForFunction(() => [...document.querySelectorAll("[data-row]")].some((it) => { const box = it.getBoundingClientRect(); return 0 < box.bottom && box.top < innerHeight; }), null, { timeout: 60_000 })
    .catch(() => problems.push(`nothing is shown at ${where}`));
  return look();
};

const began = Date.now();
await page.goto(address);
await page.locator("article").first().waitFor();
const painted = Date.now() - began;
await page.locator("#tab-conversation").waitFor();
await settled("the end");
const last = await page.evaluate(() => Number([...document.querySelectorAll("[data-row]")].at(-1)?.dataset.row ?? -1));
if (last < Number(calls)) problems.push(`the last row is ${last}`);

// From the end to the beginning in leaps, and some way back line by line.
for (let part = 19; 0 <= part; part -= 1) {
  await page.evaluate((share) => scrollTo(0, document.documentElement.scrollHeight * share), part / 20);
  await settled(`${part} of 20`);
}
if ((await settled("the beginning")).first !== 0) problems.push("the beginning does not begin with the first row");
const frames = await page.evaluate(async () => {
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let at = 0; at < 120; at += 1) {
    scrollBy(0, 400);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  return frames.sort((a, b) => a - b);
});
await settled("somewhere");

// A row in the middle is found and shown.
await page.keyboard.press("/");
await page.keyboard.type(needle);
await page.keyboard.press("Enter");
await page.locator("#hits li button").first().click();
await page.locator("article.found").waitFor();
const found = await page.evaluate(() => document.querySelector("article.found").dataset.row);
if (found !== wanted) problems.push(`row ${found} was found instead of ${wanted}`);
for (const pane of ["timeline", "cost", "window", "permission"]) {
  await page.click(`#tab-${pane}`);
  await page.waitForFunction((pane) => document.querySelector(`#tab-${pane}`).ariaSelected === "true" && document.querySelector("#pane").childElementCount > 0 && !document.querySelector("#pane .rows, #pane.waiting"), pane);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  if (20_000 < nodes) problems.push(`${nodes} elements in ${pane}`);
}
if (1_500_000 < bytes) problems.push(`${bytes} bytes of rows were fetched`);
if (400 < fetched) problems.push(`rows were fetched ${fetched} times`);
await browser.close();
const told = `painted after ${painted} ms, ${most} rows at most, ${bytes} bytes in ${fetched} answers, frames p50 ${frames[60].toFixed(1)} p95 ${frames[114].toFixed(1)} max ${frames.at(-1).toFixed(1)} ms`;
process.stdout.write(problems.length === 0 ? `fine, ${told}\n` : `${[...new Set(problems)].join("\n")}\n${told}\n`);
