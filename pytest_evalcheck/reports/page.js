"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("filter");
  if (!form) return;
  const FIELDS = ["q", "kind", "library", "code", "device", "sort"];
  const WORST = { failed: 1e6, incomplete: 1e3, known: 1 };
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

  // The matrix has every cell once: it is the data of the filters.
  const tables = all(".matrix table").map((table) => {
    const columns = all("thead th", table).slice(1).map((head, index) => {
      const code = head.textContent.trim();
      return { code, statement: head.title, text: head.title.toLowerCase(), index, head };
    });
    const files = [...table.tBodies].map((body, order) => {
      const head = body.querySelector(".file");
      const file = head ? head.textContent.trim() : "";
      const rows = all("tr:not(.file)", body).map((line, order) => {
        const name = line.cells[0].textContent;
        const { device, library, seconds } = line.dataset;
        const text = `${file}::${name}`.toLowerCase();
        return { line, order, name, text, device, library, seconds: Number(seconds), kind: table.dataset.kind };
      });
      return { body, head, order, name: file, rows };
    });
    const section = table.closest("details");
    return { table, columns, files, section, heading: section.querySelector("summary > .count") };
  });
  const rows = tables.flatMap((table) => table.files.flatMap((file) => file.rows));
  const groups = new Map(all("[data-group]").map((element, order) => [element.id, {
    element, entry: element.parentElement, order, count: element.querySelector(".count"), cells: [],
    text: null, library: element.closest("section[id^=library-]")?.querySelector("h3").firstChild.textContent.trim() || "",
  }]));
  let cells = null;

  function read() {
    if (cells) return;
    cells = [];
    for (const { columns, files } of tables) {
      for (const row of files.flatMap((file) => file.rows)) {
        let column = 0;
        row.cells = [];
        row.parts = [];
        for (const place of [...row.line.cells].slice(1)) {
          const outcome = place.textContent;
          if (outcome) {
            const see = place.firstElementChild?.hash.slice(1);
            const cell = { place, row, column: columns[column], outcome, group: groups.get(see), on: true };
            cells.push(cell);
            row.cells.push(cell);
            cell.group?.cells.push(cell);
          }
          row.parts.push({ place, from: column, to: column + place.colSpan });
          column += place.colSpan;
        }
      }
    }
    for (const group of groups.values()) {
      group.text = group.element.textContent.toLowerCase();
      group.seconds = Math.max(0, ...group.cells.map((cell) => cell.row.seconds));
      group.code = group.element.querySelector(".code").textContent;
      group.name = group.cells.length ? group.cells.map((cell) => cell.row.text).sort()[0] : "";
    }
  }

  // Filters
  function chosen() {
    const state = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value.trim()]));
    state.outcomes = all("[aria-pressed=true]", legend).map((button) => button.dataset.outcome);
    return state;
  }

  function apply() {
    const state = chosen();
    const filtered = FIELDS.some((name) => name !== "sort" && state[name]) || state.outcomes.length > 0;
    if (filtered || cells) {
      read();
      mark(state);
      show(filtered);
    }
    if (cells || state.sort) sort(state.sort);
    const shown = filtered ? cells.filter((cell) => cell.on).length : 0;
    document.getElementById("matching").textContent = filtered ? `${shown} of ${cells.length} checks` : "";
    form.querySelector("[type=reset]").hidden = !filtered && !state.sort;
  }

  function mark({ q, kind, library, code, device, outcomes }) {
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    const having = (things) => words.map((word) => new Set(things.filter((thing) => thing.text.includes(word))));
    const [byRow, byColumn, byGroup] = [rows, tables.flatMap((table) => table.columns), [...groups.values()]].map(having);
    for (const cell of cells) {
      const { row, column, group } = cell;
      cell.on =
        (!outcomes.length || outcomes.includes(cell.outcome)) &&
        (!kind || row.kind === kind) &&
        (!library || row.library === library || group?.library === library) &&
        (!code || column.code === code) &&
        (!device || row.device === device) &&
        words.every((_, i) => byRow[i].has(row) || byColumn[i].has(column) || byGroup[i].has(group));
    }
  }

  function show(filtered) {
    for (const cell of cells) cell.place.classList.toggle("off", !cell.on);
    for (const table of tables) showTable(table, filtered);
    for (const group of groups.values()) {
      group.on = group.cells.filter((cell) => cell.on).length;
      group.entry.hidden = filtered && !group.on;
      count(group.count, filtered, group.on, group.cells.length);
    }
    for (const section of all("main section").reverse()) {
      const parts = all(".entry, .matrix, .variants", section);
      section.hidden = parts.length > 0 && parts.every((part) => part.hidden);
      const own = [...groups.values()].filter((group) => section.contains(group.element));
      const [on, size] = [own.reduce((sum, group) => sum + group.on, 0), own.reduce((sum, group) => sum + group.cells.length, 0)];
      if (own.length) count(section.querySelector(":scope > h2 > .count"), filtered, on, size);
      const line = document.querySelector(`[data-of="${section.id}"]`);
      if (!line) continue;
      line.hidden = section.hidden;
      line.cells[1].textContent = own.filter((group) => !group.entry.hidden).length;
      line.cells[2].textContent = filtered ? on : size;
    }
  }

  function showTable({ columns, files, section, heading }, filtered) {
    const used = new Set();
    let [on, size] = [0, 0];
    for (const { body, rows } of files) {
      for (const row of rows) {
        const shown = row.cells.filter((cell) => cell.on);
        row.line.hidden = filtered && !shown.length;
        shown.forEach((cell) => used.add(cell.column.index));
        on += shown.length;
        size += row.cells.length;
      }
      body.hidden = rows.every((row) => row.line.hidden);
    }
    const before = [0];
    for (const { index, head } of columns) {
      head.hidden = filtered && !used.has(index);
      before.push(before[index] + !head.hidden);
    }
    for (const row of files.flatMap((file) => file.rows)) {
      for (const { place, from, to } of row.parts) {
        const span = before[to] - before[from];
        place.hidden = !span;
        if (span) place.colSpan = span;
      }
    }
    section.hidden = !on;
    count(heading, filtered, on, size);
  }

  function count(element, filtered, on, size) {
    if (!element) return;
    element.dataset.all ??= element.textContent;
    element.textContent = filtered && on < size ? `${on} of ${size} check${size === 1 ? "" : "s"}` : element.dataset.all;
  }

  // Sorting
  const ORDERS = {
    "": (one, other) => one.order - other.order,
    size: (one, other) => other.size - one.size,
    code: (one, other) => compare(one.code, other.code),
    name: (one, other) => compare(one.name, other.name),
    time: (one, other) => other.seconds - one.seconds,
  };

  function sort(by) {
    read();
    const ordered = (things) => [...things].sort((one, other) => ORDERS[by](one, other) || one.order - other.order);
    const weigh = (cells) => cells.reduce((sum, cell) => sum + (cell.on ? WORST[cell.outcome] || 0 : 0), 0);
    for (const list of all(".entries")) {
      const own = [...groups.values()].filter((group) => group.entry.parentElement === list);
      for (const group of own) group.size = group.cells.filter((cell) => cell.on).length;
      list.append(...ordered(own).map((group) => group.entry));
    }
    for (const { table, files } of tables) {
      for (const file of files) {
        for (const row of file.rows) Object.assign(row, { size: weigh(row.cells), code: "" });
        file.body.append(...ordered(file.rows).map((row) => row.line));
        file.size = Math.max(...file.rows.map((row) => row.size));
        file.seconds = Math.max(...file.rows.map((row) => row.seconds));
        file.code = "";
      }
      table.append(...ordered(files).map((file) => file.body));
    }
  }

  // The address: a link to a filtered view can be shared.
  function address(at) {
    const { outcomes, ...fields } = chosen();
    const found = Object.entries(fields).filter(([, value]) => value);
    if (outcomes.length) found.push(["outcome", outcomes.join(",")]);
    if (at && found.length) found.push(["at", at]);
    return found.length ? `#${new URLSearchParams(found)}` : at ? `#${at}` : "";
  }

  function store(at = "") {
    const here = location.href.split("#")[0] + address(at);
    if (here !== location.href) history.replaceState(null, "", here);
  }

  function restore() {
    const hash = location.hash.slice(1);
    const asked = new URLSearchParams(hash.includes("=") ? hash : "");
    for (const name of FIELDS) {
      const field = form.elements[name];
      field.value = asked.get(name) || "";
      if (field.selectedIndex === -1) field.value = "";
    }
    const outcomes = (asked.get("outcome") || "").split(",");
    for (const button of all("button", legend)) button.setAttribute("aria-pressed", outcomes.includes(button.dataset.outcome));
    apply();
    reveal(asked.get("at") || (hash.includes("=") ? "" : decodeURIComponent(hash)));
  }

  function reveal(id) {
    const element = id && document.getElementById(id);
    if (!element) return;
    if (element.closest("[hidden]")) {
      form.reset();
      for (const button of all("button", legend)) button.setAttribute("aria-pressed", false);
      apply();
    }
    for (let one = element; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    all(".here").forEach((entry) => entry.classList.remove("here"));
    element.parentElement.classList.toggle("here", element.matches(".entry > details"));
    element.scrollIntoView();
    const focus = element.querySelector("summary, a");
    (focus || element).focus({ preventScroll: true });
  }

  // What needs a script is made by it.
  const legend = document.getElementById("legend");
  for (const item of all("li", legend)) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.outcome = item.dataset.outcome;
    button.setAttribute("aria-pressed", false);
    button.append(...item.childNodes);
    item.append(button);
  }
  const options = {
    kind: tables.map((table) => table.table.dataset.kind),
    library: [...rows.map((row) => row.library), ...[...groups.values()].map((group) => group.library)],
    code: tables.flatMap((table) => table.columns.map((column) => column.code)),
    device: rows.map((row) => row.device),
  };
  for (const [name, values] of Object.entries(options)) {
    const once = [...new Set(values.filter((value) => value && value !== "no library"))].sort(compare);
    form.elements[name].append(...once.map((value) => new Option(value, value)));
    form.elements[name].parentElement.hidden = once.length < 2;
  }
  for (const pre of all(".copied > pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command");
    pre.after(button);
  }

  async function copy(button) {
    const pre = button.previousElementSibling;
    let done = true;
    try {
      await navigator.clipboard.writeText(pre.textContent);
    } catch {
      // Where a page may not write to the clipboard, the selection can be copied by hand.
      getSelection().selectAllChildren(pre);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }

  let waiting = 0;
  const changed = () => {
    apply();
    store();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(changed, event.target.name === "q" ? 120 : 0);
  });
  form.addEventListener("reset", () => {
    for (const button of all("button", legend)) button.setAttribute("aria-pressed", false);
    setTimeout(changed);
  });
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    changed();
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches(".copy")) copy(event.target);
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const id = decodeURIComponent(link.hash.slice(1));
    reveal(id);
    store(id);
  });
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, (event) => {
    const place = event.target.closest(".matrix td");
    if (!place || place.title || !place.textContent) return;
    read();
    const cell = cells.find((one) => one.place === place);
    const text = cell.group?.element.querySelector(".text").firstChild.textContent.trim();
    place.title = [cell.row.name, cell.column.statement, cell.outcome + (text ? `: ${text}` : "")].join("\n");
  });
  addEventListener("hashchange", restore);
  restore();
});
