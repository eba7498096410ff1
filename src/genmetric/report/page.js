"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const numeric = head.classList.contains("number");
      const value = row => {
        const cell = row.cells[column];
        return numeric ? (cell.dataset.sort ? Number(cell.dataset.sort) : NaN) : cell.textContent.trim();
      };
      const rows = [...table.tBodies[0].rows].map(row => [value(row), row]);
      rows.sort(([a], [b]) => {
        if (!numeric) return (ascending ? 1 : -1) * a.localeCompare(b, "en", {numeric: true});
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        return (ascending ? 1 : -1) * (a - b);
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}
