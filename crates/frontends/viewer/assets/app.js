// The page: which session, which part of it, and what is new.

import { RowList } from "./list.js";
import { enter, follow, json, part, post } from "./net.js";

const at = (id) => document.getElementById(id);
const PANES = [
  ["conversation", "Conversation"],
  ["timeline", "Timeline"],
  ["cost", "Cost"],
  ["window", "Window"],
  ["files", "Files"],
  ["permission", "Permission"],
  ["agents", "Agents"],
];

let said = enter();
let sessions = [];
let shown = null; // { key, pane, list, stop, rows }
let pinned = true; // the reader is at the end

const say = (words) => (at("news").textContent = words);

function trouble(problem) {
  const words = document.createElement("p");
  words.className = "trouble";
  words.textContent = problem.message;
  at("pane").replaceChildren(words);
  say(problem.message);
}

function remember(fields) {
  said = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined && value !== null) said.set(name, value);
  const hash = said.size ? `#${said}` : " ";
  if (location.hash !== hash) history.pushState(null, "", said.size ? hash : location.pathname);
}

// The list of sessions.

function listSessions() {
  const wanted = at("filter").value.toLowerCase();
  const fits = sessions.filter((it) => `${it.title} ${it.project}`.toLowerCase().includes(wanted)).slice(0, 300);
  at("session-list").replaceChildren(
    ...fits.map((it) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `#s=${it.key}`;
      link.dataset.session = it.key;
      const title = document.createElement("span");
      title.className = "title";
      title.textContent = it.title || "without a name";
      const when = document.createElement("span");
      when.className = "when";
      when.textContent = `${it.when.slice(0, 16)}${it.own ? "" : " · Claude Code"}`;
      link.append(title, when);
      if (it.key === shown?.key) link.setAttribute("aria-current", "page");
      item.append(link);
      return item;
    }),
  );
}

function menu(open) {
  document.body.classList.toggle("with-menu", open);
  at("menu").setAttribute("aria-expanded", String(open));
}

// One session.

function leave() {
  shown?.stop.abort();
  shown?.list?.end();
  shown = null;
  at("hits").hidden = true;
}

async function openSession(key, { pane = "conversation", row } = {}) {
  leave();
  const stop = new AbortController();
  shown = { key, pane, stop, rows: 0, list: null };
  const mine = shown;
  at("facts").replaceChildren();
  at("pane").replaceChildren();
  menu(false);
  try {
    if (pane === "conversation" && row === undefined) await showTail(mine);
    const head = await json(`log/${key}`);
    if (shown !== mine) return;
    Object.assign(mine, { rows: head.rows, reading: head.reading, changes: head.changes });
    at("title").textContent = head.title;
    document.title = `${head.title} · Haft`;
    const holder = document.createElement("template");
    holder.innerHTML = head.facts;
    at("facts").replaceChildren(holder.content);
    at("follow-box").hidden = false;
    at("search").hidden = false;
    tabs();
    await openPane(pane, { row });
    listSessions();
    const place = () => `log/${key}/follow?reading=${mine.reading}&changes=${mine.changes}`;
    follow(place, stop.signal, (news) => heard(mine, news));
  } catch (problem) {
    if (shown === mine) trouble(problem);
  }
}

/** The last rows of a log that takes long to read, until it is read. */
async function showTail(mine) {
  const tail = await json(`log/${mine.key}/tail`);
  if (shown !== mine || tail.ready) return;
  const rows = document.createElement("div");
  rows.className = "rows";
  rows.inert = true;
  rows.innerHTML = tail.rows;
  at("pane").replaceChildren(rows);
  scrollTo(0, document.documentElement.scrollHeight);
  say("The rest of the session is being read.");
}

function tabs() {
  at("tabs").hidden = false;
  at("tabs").replaceChildren(
    ...PANES.map(([name, words]) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `tab-${name}`;
      tab.dataset.pane = name;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", "pane");
      tab.textContent = words;
      return tab;
    }),
  );
}

function markTab(pane) {
  for (const tab of at("tabs").children) {
    const chosen = tab.dataset.pane === pane;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  at("pane").setAttribute("role", "tabpanel");
  at("pane").setAttribute("aria-labelledby", `tab-${pane}`);
  at("pane").removeAttribute("aria-label");
}

async function openPane(pane, { row, page } = {}) {
  const mine = shown;
  mine.list?.end();
  mine.list = null;
  mine.pane = pane;
  markTab(pane);
  const holder = at("pane");
  remember({ s: mine.key, p: pane === "conversation" ? null : pane, r: row });
  if (pane === "conversation") {
    holder.replaceChildren();
    mine.list = new RowList(holder, mine.key);
    mine.list.grow(mine.rows);
    if (!mine.rows) holder.append(Object.assign(document.createElement("p"), { className: "empty", textContent: "Nothing was said yet." }));
    if (row !== undefined) await mine.list.show(Number(row), { focus: true, open: true });
    else mine.list.showEnd();
    return;
  }
  holder.classList.add("waiting");
  try {
    const inside = await part(`log/${mine.key}/pane/${pane}${page === undefined ? "" : `?page=${page}`}`, mine.stop.signal);
    if (shown !== mine || mine.pane !== pane) return;
    holder.replaceChildren(inside);
    pages(holder, pane);
  } catch (problem) {
    if (shown === mine) trouble(problem);
  } finally {
    holder.classList.remove("waiting");
  }
}

/** Buttons for earlier and later calls. */
function pages(holder, pane) {
  const words = holder.querySelector("[data-pages]");
  if (!words) return;
  const [here, all] = [Number(words.dataset.page), Number(words.dataset.pages)];
  for (const [name, page] of [["Earlier", here - 1], ["Later", here + 1]]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    button.disabled = page < 0 || all <= page;
    button.addEventListener("click", () => openPane(pane, { page }));
    words.append(" ", button);
  }
}

function heard(mine, news) {
  if (shown !== mine) return;
  const grown = news.rows - mine.rows;
  mine.rows = news.rows;
  mine.changes = news.changes;
  // The log is another one than before.
  if (news.reading !== mine.reading) return void openSession(mine.key, { pane: mine.pane });
  if (!mine.list) return;
  if (mine.rows && at("pane").querySelector(".empty")) at("pane").querySelector(".empty").remove();
  mine.list.grow(news.rows, news.changed);
  if (0 < grown && at("follow").checked && pinned) requestAnimationFrame(() => mine.list?.showEnd());
  if (0 < grown) say(`${grown} new`);
}

async function openAll() {
  leave();
  at("tabs").hidden = true;
  at("follow-box").hidden = true;
  at("search").hidden = true;
  at("facts").replaceChildren();
  at("title").textContent = "Haft";
  document.title = "All sessions · Haft";
  const holder = at("pane");
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", "All sessions");
  holder.removeAttribute("aria-labelledby");
  holder.replaceChildren(Object.assign(document.createElement("p"), { className: "empty", textContent: "Reading all sessions…" }));
  holder.classList.add("waiting");
  remember({});
  menu(false);
  listSessions();
  try {
    holder.replaceChildren(await part("dashboard"));
  } catch (problem) {
    trouble(problem);
  } finally {
    holder.classList.remove("waiting");
  }
}

// Search.

async function find(words) {
  const hits = at("hits");
  if (!shown || !words.trim()) return void (hits.hidden = true);
  const mine = shown;
  try {
    const found = (await json(`log/${mine.key}/search?q=${encodeURIComponent(words)}`)).hits;
    if (shown !== mine) return;
    const title = document.createElement("h2");
    title.textContent = found.length === 1 ? "1 place" : `${found.length}${found.length === 200 ? " or more" : ""} places`;
    const list = document.createElement("ol");
    for (const it of found) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: it.excerpt });
      button.addEventListener("click", () => goTo(it.row));
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close", className: "close" });
    close.addEventListener("click", () => ((hits.hidden = true), at("words").focus()));
    hits.replaceChildren(title, close, list);
    hits.hidden = false;
    say(title.textContent);
  } catch (problem) {
    say(problem.message);
  }
}

async function goTo(row) {
  if (!shown) return;
  pinned = false;
  if (shown.pane !== "conversation") await openPane("conversation", { row });
  else {
    remember({ s: shown.key, r: row });
    await shown.list.show(row, { focus: true, open: true });
  }
}

// Taking changes back.

/** What would happen, one line for each file. */
function planned(plan) {
  const lines = [...plan.steps.map((it) => `${it.what} ${it.path}`), ...plan.conflicts.map((it) => `leave alone ${it.path}: ${it.reason}`)];
  return lines.length ? lines.join("\n") : "Nothing would change.";
}

async function undo(entry) {
  const dialog = at("dialog");
  try {
    const plan = await json(`log/${shown.key}/undo/${encodeURIComponent(entry)}`);
    at("dialog-title").textContent = "Take this change back?";
    at("dialog-text").textContent = planned(plan);
    at("dialog-yes").hidden = !plan.steps.length;
  } catch (problem) {
    at("dialog-title").textContent = "This cannot be taken back";
    at("dialog-text").textContent = problem.message;
    at("dialog-yes").hidden = true;
  }
  at("dialog-no").textContent = "Leave it";
  at("dialog-yes").onclick = async () => {
    at("dialog-yes").hidden = true;
    at("dialog-no").textContent = "Close";
    try {
      const told = await post(`log/${shown.key}/undo`, { entry });
      const lines = [...told.restored.map((it) => `restored ${it}`), ...told.conflicts.map((it) => `left alone ${it.path}: ${it.reason}`), ...told.commits.map((it) => `the commit stays: ${it}`)];
      at("dialog-title").textContent = told.conflicts.length ? "Some files were left alone" : "Taken back";
      at("dialog-text").textContent = lines.join("\n");
      openPane("files");
    } catch (problem) {
      at("dialog-title").textContent = "Nothing was changed";
      at("dialog-text").textContent = problem.message;
    }
  };
  dialog.showModal();
}

// What the reader does.

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-session], [data-goto], [data-undo], [data-pane]");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const { session, goto, undo: entry, pane, at: row } = link.dataset;
  if (session) openSession(session, { row });
  else if (goto) goTo(Number(goto));
  else if (entry) undo(entry);
  else if (pane) openPane(pane);
});

at("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -100, End: 100 }[event.key];
  if (!step || !shown) return;
  event.preventDefault();
  const here = PANES.findIndex(([name]) => name === shown.pane);
  const next = Math.abs(step) === 100 ? (step < 0 ? 0 : PANES.length - 1) : (here + step + PANES.length) % PANES.length;
  openPane(PANES[next][0]);
  at(`tab-${PANES[next][0]}`).focus();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, dialog *");
  const find = (event.key === "/" && !typing) || (event.key === "f" && (event.ctrlKey || event.metaKey));
  if (find && shown) {
    event.preventDefault();
    at("words").focus();
    at("words").select();
  } else if (event.key === "Escape" && !at("hits").hidden) {
    at("hits").hidden = true;
    at("words").focus();
  } else if (event.key === "j" && !typing && shown?.list && !event.target.closest?.("[data-row]")) {
    pinned = false;
    shown.list.show(0, { focus: true, block: "nearest" });
  }
});

// Asked between two frames, and not for every one: the browser would have to lay out once more for the answer.
let looking = false;
addEventListener("scroll", () => {
  if (looking) return;
  looking = true;
  setTimeout(() => {
    looking = false;
    pinned = document.documentElement.scrollHeight - innerHeight - scrollY < 80;
  }, 50);
}, { passive: true });

at("search").addEventListener("submit", (event) => (event.preventDefault(), find(at("words").value)));
at("filter").addEventListener("input", listSessions);
at("menu").addEventListener("click", () => menu(!document.body.classList.contains("with-menu")));
at("all-sessions").addEventListener("click", openAll);
at("dialog-no").addEventListener("click", () => at("dialog").close());
at("follow").addEventListener("change", () => at("follow").checked && shown?.list?.showEnd());

function asAddressed() {
  const key = said.get("s");
  const row = said.get("r");
  if (key) openSession(key, { pane: said.get("p") ?? "conversation", row: row === null ? undefined : row });
  else openAll();
}

addEventListener("popstate", () => {
  said = enter();
  asAddressed();
});

asAddressed();
json("sessions").then((all) => ((sessions = all.sessions), listSessions()), () => {});
