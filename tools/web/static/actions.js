// Changes, only where the page was started with --actions: first what would happen, then the name typed, then it is done.
import { fill, make } from "./format.js";
import { post } from "./connection.js";

export class Acting {
  constructor(dialog, page) { this.dialog = dialog; this.page = page; }
  async open(name, given, about) {
    fill(this.dialog, make("h2", { text: `${name}: ${about}` }), make("p", { text: "asking what would happen" })); this.dialog.showModal();
    try { this.ask(name, given, about, await post(`actions/${name}`, { ...given, dry_run: true })); } catch (error) { this.over(name, about, error.message, true); }
  }
  ask(name, given, about, found) {
    const typed = make("input", { type: "text", "aria-label": `type ${about}`, autocomplete: "off" });
    const go = make("button", { type: "button", text: "Do it", disabled: true });
    typed.addEventListener("input", () => { go.disabled = typed.value !== about; });
    go.addEventListener("click", async () => { go.disabled = true; try { const done = await post(`actions/${name}`, { ...given, dry_run: false, typed: typed.value }); this.over(name, about, `${done.text} (${done.outcome})`, false); } catch (error) { this.over(name, about, error.message, true); } });
    fill(this.dialog, make("h2", { text: `${name}: ${about}` }), make("p", { text: found.text }), make("ul", {}, (found.would || []).map((text) => make("li", { text }))), make("p", { text: `Type ${about} to have it done.` }), typed, make("div", { class: "bar" }, go, make("button", { type: "button", text: "Leave it", onclick: () => this.dialog.close() }))); typed.focus();
  }
  over(name, about, text, bad) { fill(this.dialog, make("h2", { text: `${name}: ${about}` }), make("p", { class: bad ? "bad-text" : null, text }), make("div", { class: "bar" }, make("button", { type: "button", text: "Close", onclick: () => this.dialog.close() }))); }
}
