// A conversation of any length: only what is near the window is in the page.
// Rows come in chunks; a chunk that is far away is an empty box of its height.
// Nothing here asks the browser for a size while it changes the page: sizes come
// with what the observer sees, and at most one chunk comes in per frame.

import { blob, part } from "./net.js";

const CHUNK = 20;
const GUESS = 44; // height of a row nobody has seen, in pixels
const SETTLE = 40; // a chunk is fetched when it is near for so long, in milliseconds
const ANCHORS = CSS.supports("overflow-anchor", "auto"); // the browser keeps the window where it is

export class RowList {
  constructor(holder, key) {
    this.key = key;
    this.total = 0;
    this.chunks = [];
    this.box = document.createElement("div");
    this.box.className = "rows";
    this.box.setAttribute("role", "feed");
    this.box.setAttribute("aria-label", "Conversation");
    holder.append(this.box);
    this.watch = new IntersectionObserver((seen) => this.#seen(seen), { rootMargin: "1200px 0px" });
    this.opened = new Set();
    this.turn = Promise.resolve();
    this.box.addEventListener("toggle", (event) => this.#toggled(event.target), true);
    this.box.addEventListener("keydown", (event) => this.#key(event));
  }

  end() {
    this.watch.disconnect();
    for (const chunk of this.chunks) this.#empty(chunk);
  }

  /** There are so many rows now; these look different. */
  grow(total, changed = []) {
    this.total = total;
    while (this.chunks.length * CHUNK < total) {
      const box = document.createElement("div");
      box.className = "chunk";
      const chunk = { box, at: this.chunks.length, state: "empty", height: 0, near: false };
      box.dataset.chunk = chunk.at;
      this.chunks.push(chunk);
      this.box.append(box);
      this.#guess(chunk);
      this.watch.observe(box);
    }
    const last = this.chunks.at(-1);
    const stale = new Set(changed.map((row) => Math.floor(row / CHUNK)));
    if (last && last.count !== this.#count(last)) stale.add(last.at);
    for (const at of stale) {
      const chunk = this.chunks[at];
      if (chunk?.state === "full") this.#fill(chunk);
      else if (chunk?.state === "empty") this.#guess(chunk);
      else if (chunk) chunk.again = true;
    }
  }

  #count(chunk) {
    return Math.min(CHUNK, this.total - chunk.at * CHUNK);
  }

  #guess(chunk) {
    if (chunk.state !== "empty") return;
    chunk.box.style.setProperty("height", `${chunk.height || this.#count(chunk) * GUESS}px`);
  }

  #seen(seen) {
    for (const { target, isIntersecting, boundingClientRect } of seen) {
      const chunk = this.chunks[target.dataset.chunk];
      chunk.near = isIntersecting;
      if (chunk.state === "full") chunk.height = boundingClientRect.height;
      // Whoever scrolls past wants nothing of it.
      if (isIntersecting && chunk.state === "empty") setTimeout(() => chunk.near && chunk.state === "empty" && this.#fill(chunk), SETTLE);
      if (!isIntersecting && chunk.state === "full" && !chunk.box.contains(document.activeElement)) this.#empty(chunk);
    }
  }

  async #fill(chunk) {
    chunk.state = "filling";
    chunk.again = false;
    const count = this.#count(chunk);
    try {
      const rows = await part(`log/${this.key}/rows?from=${chunk.at * CHUNK}&count=${count}`);
      await this.#frame();
      if (!chunk.near && !chunk.wanted && !chunk.box.childElementCount) return void (chunk.state = "empty");
      const focused = chunk.box.contains(document.activeElement) ? document.activeElement.closest("[data-row]")?.id : null;
      const before = ANCHORS ? null : chunk.box.getBoundingClientRect();
      this.#forget(chunk);
      chunk.box.replaceChildren(rows);
      chunk.box.style.removeProperty("height");
      chunk.state = "full";
      chunk.count = count;
      for (const row of chunk.box.querySelectorAll("[data-row]")) if (this.opened.has(row.dataset.row)) row.querySelector("details")?.setAttribute("open", "");
      // What grows above the window must not push it away.
      if (before && before.bottom < 0) scrollBy(0, chunk.box.offsetHeight - before.height);
      if (focused) document.getElementById(focused)?.querySelector("summary")?.focus();
      this.#pictures(chunk.box);
    } catch (problem) {
      chunk.state = "empty";
      chunk.box.textContent = problem.message;
    }
    if (chunk.again) this.#fill(chunk);
  }

  /** The beginning of a frame in which nothing else comes in. */
  #frame() {
    this.turn = this.turn.then(() => new Promise(requestAnimationFrame));
    return this.turn;
  }

  #empty(chunk) {
    if (chunk.state !== "full") return;
    this.#forget(chunk);
    chunk.box.replaceChildren();
    chunk.state = "empty";
    this.#guess(chunk);
  }

  #forget(chunk) {
    for (const it of chunk.box.querySelectorAll("img[src^='blob:']")) URL.revokeObjectURL(it.src);
  }

  async #toggled(details) {
    if (!details.matches?.("details[data-detail]")) return;
    const row = details.closest("[data-row]").dataset.row;
    if (!details.open) return void this.opened.delete(row);
    this.opened.add(row);
    const body = details.querySelector(".body");
    if (body.childElementCount) return;
    try {
      body.replaceChildren(await part(`log/${this.key}/row/${row}`));
      this.#pictures(body);
    } catch (problem) {
      body.textContent = problem.message;
    }
  }

  async #pictures(inside) {
    for (const it of inside.querySelectorAll("img[data-picture]:not([src])")) {
      try {
        it.src = URL.createObjectURL(await blob(`log/${this.key}/picture/${it.dataset.picture}`));
      } catch {
        it.alt = "A picture that could not be loaded";
      }
    }
  }

  /** j and k, or the arrows with Alt: from row to row. */
  #key(event) {
    const step = { j: 1, k: -1 }[event.key];
    if (!step || event.target.matches("input, textarea") || event.ctrlKey || event.metaKey) return;
    const row = Number(event.target.closest("[data-row]")?.dataset.row ?? -1);
    this.show(Math.max(0, Math.min(this.total - 1, row + step)), { focus: true, block: "nearest" });
  }

  /** Brings a row into the window, wherever it is. */
  async show(row, { focus = false, open = false, block = "center" } = {}) {
    const chunk = this.chunks[Math.floor(row / CHUNK)];
    if (!chunk) return;
    if (chunk.state !== "full") {
      chunk.wanted = true;
      chunk.box.scrollIntoView({ block: "center" });
      while (chunk.state === "filling") await new Promise(requestAnimationFrame);
      if (chunk.state === "empty") await this.#fill(chunk);
      chunk.wanted = false;
    }
    const found = document.getElementById(`r${row}`);
    if (!found) return;
    const details = found.querySelector("details");
    if (open && details) details.open = true;
    found.scrollIntoView({ block });
    if (focus) {
      found.tabIndex = -1;
      (found.querySelector("summary") ?? found).focus({ preventScroll: true });
      document.querySelector(".found")?.classList.remove("found");
      found.classList.add("found");
    }
  }

  showEnd() {
    const last = this.chunks.at(-1);
    if (last) scrollTo(0, document.documentElement.scrollHeight);
  }
}
