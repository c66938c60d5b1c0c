// A filter above the table of findings: text, library, check, and whether there is a report upstream.
// The address keeps what was chosen, such as findings.html?library=keras&check=EC201. Without scripts the table is whole.
(() => {
  const table = [...document.querySelectorAll("article table")].find(
    (each) => each.tHead?.rows[0].cells[1]?.textContent === "finding"
  );
  if (!table) return;
  table.dataset.filtered = "";

  const rows = [...table.tBodies[0].rows].map((row) => {
    const [library, , checks, report] = [...row.cells].map((cell) => cell.textContent);
    return {
      row,
      text: row.textContent.toLowerCase(),
      library: library.split(", "),
      check: checks.match(/EC\d{3}/g) ?? [],
      report: [/^(none|no report) found/.test(report) ? "none found" : "reported"],
    };
  });

  const form = document.createElement("form");
  form.className = "filter";
  form.setAttribute("role", "search");
  const address = new URLSearchParams(location.search);
  const field = (name, control) => {
    const label = document.createElement("label");
    control.name = name;
    control.value = address.get(name) ?? "";
    if (control.selectedIndex === -1) control.value = "";
    label.append(name, control);
    form.append(label);
    return control;
  };
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "words of a finding, such as float16";
  const text = field("text", input);
  const choices = ["library", "check", "report"].map((name) => {
    const counts = new Map();
    for (const each of rows.flatMap((row) => row[name])) counts.set(each, (counts.get(each) ?? 0) + 1);
    const select = document.createElement("select");
    select.append(new Option("all", ""));
    for (const value of [...counts.keys()].sort((a, b) => a.localeCompare(b, "en", { sensitivity: "base" })))
      select.append(new Option(`${value} (${counts.get(value)})`, value));
    return field(name, select);
  });
  const count = document.createElement("output");
  form.append(count);

  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const each of rows) {
      const fits =
        words.every((word) => each.text.includes(word)) &&
        choices.every(({ name, value }) => !value || each[name].includes(value));
      each.row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} findings`;
    const query = new URLSearchParams(location.search);
    for (const { name, value } of [text, ...choices]) value ? query.set(name, value) : query.delete(name);
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  (table.closest(".md-typeset__scrollwrap") ?? table).before(form);
  show();
})();
