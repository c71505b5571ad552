// The way to the page's server: a token for a cookie, one stream for all tabs of a browser, questions as JSON.
// HTTP/1.1 allows six connections to one place: one tab holds the stream (a Web Lock) and tells the others.
let csrf = "";
export class Refused extends Error { constructor(status, text) { super(text); this.status = status; } }

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error || `${response.status} ${response.statusText}`);
  return body;
}
export async function enter() { // the token stands behind the #, which is never sent; it goes from the address at once
  const token = decodeURIComponent(location.hash.slice(1));
  if (token) {
    history.replaceState(null, "", location.pathname);
    const body = await answer(await fetch("/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) }));
    csrf = body.csrf;
  }
}
export const read = async (path) => answer(await fetch(`/api/v1/${path}`, { headers: { Accept: "application/json" } }));
export const post = async (path, body) => answer(await fetch(`/api/v1/${path}`, { method: "POST", headers: { "Content-Type": "application/json", "X-Grapevine-CSRF": csrf }, body: JSON.stringify(body) }));

const KINDS = ["hello", "overlay", "pulse", "event", "source", "bye"];
export function follow(take, broken, snapshot) { // take(kind, document); broken(status) when nobody lets us in
  const tell = (kind, data) => { if (kind === "hello") csrf = data.csrf; take(kind, data); };
  const direct = (onward) => {
    const stream = new EventSource("/api/v1/stream");
    for (const kind of KINDS) stream.addEventListener(kind, (event) => { const data = JSON.parse(event.data); tell(kind, data); onward(kind, data); });
    stream.onopen = () => { take("open", null); onward("open", null); };
    stream.onerror = async () => {
      take("broken", null); onward("broken", null);
      if (stream.readyState === EventSource.CLOSED) { // the server said no: ask why
        const status = await fetch("/api/v1/overlay").then((r) => r.status).catch(() => 0);
        broken(status);
        if (status !== 401) setTimeout(() => { if (stream.readyState === EventSource.CLOSED) direct(onward); }, 2000);
      }
    };
    return stream;
  };
  if (!navigator.locks || !window.BroadcastChannel) { direct(() => {}); return; }
  const channel = new BroadcastChannel("grapevine");
  let leading = false;
  channel.onmessage = ({ data }) => {
    if (leading) { if (data.kind === "hi") for (const [kind, document] of snapshot()) channel.postMessage({ kind, data: document }); } else if (data.kind !== "hi") tell(data.kind, data.data);
  };
  channel.postMessage({ kind: "hi" });
  navigator.locks.request("grapevine-stream", () => { leading = true; direct((kind, data) => channel.postMessage({ kind, data })); return new Promise(() => {}); });
}
