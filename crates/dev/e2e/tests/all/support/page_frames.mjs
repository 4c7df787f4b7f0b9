// Scrolls through a long session in Chromium and says how long its main thread works at a time: by
// its own clock of processor time, which other programs on the machine do not stretch.
// Arguments: the address, and `strict` to fail where the list of rows makes the browser lay out in between.
import { chromium } from "playwright-core";

const [address, strict] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(60_000);
await page.goto(address);
await page.locator("#tab-conversation").waitFor();
await page.locator("article").first().waitFor();
await page.evaluate(() => scrollTo(0, 0));
await page.locator("#r0").waitFor();

const categories = ["-*", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline", "disabled-by-default-devtools.timeline.stack"];
await browser.startTracing(page, { categories });
const frames = await page.evaluate(async (rounds) => {
  const frames = [];
  const frame = () => new Promise(requestAnimationFrame);
  let before = await frame();
  const end = document.documentElement.scrollHeight;
  // Line by line, page by page, and in leaps.
  for (const step of [60, 400, 900, Math.floor(end / 200)]) {
    for (let at = 0; at < rounds; at += 1) {
      scrollBy(0, end < scrollY + innerHeight + 2 * step ? -end : step);
      const now = await frame();
      frames.push(now - before);
      before = now;
    }
  }
  return frames.sort((a, b) => a - b);
}, strict ? 50 : 200);
const trace = JSON.parse((await browser.stopTracing()).toString()).traceEvents;
await browser.close();

// The thread of the page is the one that lays out most.
const count = new Map();
for (const it of trace) if (it.name === "Layout") count.set(`${it.pid}/${it.tid}`, (count.get(`${it.pid}/${it.tid}`) ?? 0) + 1);
const [main] = [...count].sort((a, b) => b[1] - a[1])[0] ?? [];
const mine = trace.filter((it) => `${it.pid}/${it.tid}` === main);
const tasks = mine.filter((it) => it.ph === "X" && /RunTask$/.test(it.name));
const work = tasks.map((it) => (it.tdur ?? it.dur) / 1000).sort((a, b) => a - b);
const clock = tasks.some((it) => it.tdur !== undefined) ? "processor time" : "wall time";
const forced = mine.filter((it) => it.name === "Layout" && it.args?.beginData?.stackTrace?.some?.((at) => /\/(app|list|net)\.js/.test(at.url)));
const at = (list, share) => (list[Math.floor((list.length - 1) * share)] ?? 0).toFixed(1);
const busy = mine.filter((it) => it.name === "Layout").map((it) => (it.tdur ?? it.dur) / 1000).sort((a, b) => a - b);
process.stdout.write(
  `longest task ${at(work, 1)} ms of ${clock} (p99 ${at(work, 0.99)}), longest layout ${at(busy, 1)} ms, ${forced.length} forced by our scripts; ` +
  `${frames.length} frames by the clock p50 ${at(frames, 0.5)} p95 ${at(frames, 0.95)} max ${at(frames, 1)} ms\n`,
);
// What comes in and goes while somebody scrolls never waits for a layout of its own.
const ours = forced.filter((it) => it.args.beginData.stackTrace.some((at) => at.url.endsWith("/list.js")));
if (strict && ours.length) {
  for (const it of ours.slice(0, 5)) process.stdout.write(`${JSON.stringify(it.args.beginData.stackTrace[0])}\n`);
  process.exitCode = 1;
}
