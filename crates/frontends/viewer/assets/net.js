// Asks the server, with the token that came in the address and is in it no more.

const KEY = "haft-token";

/** Takes the token out of the address; what else the address says. */
export function enter() {
  const said = new URLSearchParams(location.hash.slice(1));
  const token = said.get("t");
  if (token) {
    sessionStorage.setItem(KEY, token);
    said.delete("t");
    history.replaceState(null, "", said.size ? `#${said}` : location.pathname);
  }
  return said;
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(KEY) ?? "";
  const headers = { ...options.headers, Authorization: `Bearer ${token}` };
  const answer = await fetch(`/api/${path}`, { ...options, headers, cache: "no-store" });
  if (!answer.ok) {
    const why = (await answer.text()).slice(0, 300);
    throw new Error(answer.status === 403 && !options.method ? "Open the address that `haft view` printed." : why || `error ${answer.status}`);
  }
  return answer;
}

export const json = async (path) => (await ask(path)).json();
export const blob = async (path, signal) => (await ask(path, { signal })).blob();

/** Markup our server made: nothing of a log is markup in it. */
export async function part(path, signal) {
  const holder = document.createElement("template");
  holder.innerHTML = await (await ask(path, { signal })).text();
  return holder.content;
}

export async function post(path, body) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await ask(path, options)).json();
}

/** Calls back for every piece of news until the signal stops it; comes again by itself, to where `place` says. */
export async function follow(place, signal, heard) {
  for (let pause = 250; !signal.aborted; pause = Math.min(pause * 2, 8000)) {
    try {
      const reader = (await ask(place(), { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
      let held = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        held += value;
        const lines = held.split("\n\n");
        held = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) heard(JSON.parse(line.slice(6)));
        pause = 250;
      }
    } catch {
      if (signal.aborted) return;
    }
    await new Promise((go) => setTimeout(go, pause));
  }
}
