// A click on a heading sorts the table by it; another one turns the order round.
document.querySelectorAll("th").forEach((heading) => heading.addEventListener("click", () => {
  const table = heading.closest("table"), body = table.tBodies[0];
  const column = [...heading.parentNode.children].indexOf(heading);
  const down = !heading.classList.contains("down");
  table.querySelectorAll("th").forEach((other) => other.classList.remove("up", "down"));
  heading.classList.add(down ? "down" : "up");
  const key = (row) => row.children[column].dataset.v ?? row.children[column].textContent;
  const compare = (a, b) => isNaN(a) || isNaN(b) || a === "" || b === "" ? String(a).localeCompare(b, undefined, { numeric: true }) : a - b;
  [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b))).forEach((row) => body.append(row));
}));
