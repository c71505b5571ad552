// What has happened, newest last; each kind has a word and a colour, each line leads to where it happened.
import { clock, fill, make, utc } from "./format.js";

const SHOWN = 200;
const WORDS = { "soft.promoted": "soft link", "soft.demoted": "soft link ends", "soft.banned": "soft link banned", "relocate.started": "relocate", "relocate.settled": "relocated", "relocate.refused": "stays", "move.started": "move", "move.done": "moved", "link.down": "link down", "link.up": "link up", "link.lost": "link lost", "slow.began": "slow", "slow.ended": "caught up" };
export const word = (kind) => WORDS[kind] ?? kind;
const sort = (event) => (event.level !== "info" ? event.level : event.kind.startsWith("soft") ? "soft" : event.kind.startsWith("relocate") || event.kind.startsWith("move") ? "move" : "");

export class Timeline {
  constructor(list, live, open) { this.list = list; this.live = live; this.open = open; this.said = 0; this.waiting = null; }
  line(event) {
    return make("li", { class: sort(event), "data-n": event.n },
      make("time", { text: clock(event.t), title: utc(event.t) }), make("b", { text: word(event.kind) }),
      make("button", { class: "link-button", type: "button", text: event.text, onclick: () => this.open(event) }));
  }
  all(events) { fill(this.list, events.slice(-SHOWN).map((event) => this.line(event))); this.end(); }
  add(event) {
    const box = this.list.parentElement, atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    this.list.append(this.line(event));
    while (this.list.children.length > SHOWN) this.list.firstChild.remove();
    if (atEnd) this.end();
    this.say(event.text);
  }
  end() { const box = this.list.parentElement; box.scrollTop = box.scrollHeight; }
  say(text) { // politely: one a second at most
    const now = performance.now();
    if (now - this.said > 1000) { this.said = now; this.live.textContent = text; return; }
    clearTimeout(this.waiting); this.waiting = setTimeout(() => this.say(text), 1000 - (now - this.said));
  }
}
