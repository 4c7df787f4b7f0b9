// Opens a page in Chromium and says what is wrong with it.
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const address = `file://${process.argv[2]}`;
const problems = [];
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
for (const colorScheme of ["light", "dark"]) {
  // As anybody opens it: nothing is fetched, nothing runs, nothing is refused.
  const page = await browser.newPage({ colorScheme });
  page.on("request", (it) => it.url() !== address && problems.push(`asked for ${it.url().slice(0, 100)}`));
  page.on("dialog", (it) => (problems.push(`a dialog: ${it.message()}`), it.dismiss()));
  page.on("pageerror", (it) => problems.push(`an error: ${it}`));
  page.on("console", (it) => it.type() === "error" && problems.push(`the console: ${it.text()}`));
  await page.goto(address);
  const styled = await page.evaluate(() => getComputedStyle(document.querySelector("article")).borderRadius);
  if (styled !== "9px") problems.push(`the style sheet is not in force: ${styled}`);
  await page.locator("summary").first().focus();
  await page.keyboard.press("Enter");
  if ((await page.locator("article details[open]").count()) !== 1) problems.push("a call cannot be opened by keyboard");
  await page.close();
  // Axe needs a script in the page, which the page itself would refuse.
  const context = await browser.newContext({ bypassCSP: true, colorScheme });
  const judged = await context.newPage();
  await judged.goto(address);
  await judged.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = true)));
  await judged.addScriptTag({ path: require.resolve("axe-core/axe.min.js") });
  const { violations } = await judged.evaluate(() => globalThis.axe.run());
  for (const it of violations) problems.push(`${colorScheme} ${it.id}: ${it.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3).join(" | ")}`);
  await context.close();
}
await browser.close();
process.stdout.write(problems.length === 0 ? "fine\n" : problems.join("\n") + "\n");
