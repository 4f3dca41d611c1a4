// Read-outs, the choice of a member, enlarged pictures. Values are only ever put in as text.
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  const show = (rows, x, y) => {
    tip.replaceChildren(...rows.map(([tone, text]) => {
      const row = document.createElement("div");
      if (tone !== null) {
        const dot = document.createElement("i");
        dot.className = "t" + tone;
        row.append(dot);
      }
      row.append(text);
      return row;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - box.height - 4)) + "px";
  };
  const hide = () => { tip.hidden = true; };

  const tipped = (target) => target.closest && target.closest("[data-tip]");
  const showTip = (node, x, y) => show(node.dataset.tip.split("\n").map((t) => [null, t]), x, y);
  document.addEventListener("pointerover", (e) => {
    const node = tipped(e.target);
    if (node) showTip(node, e.clientX, e.clientY);
  });
  document.addEventListener("pointerout", (e) => { if (tipped(e.target)) hide(); });
  document.addEventListener("focusin", (e) => {
    const node = tipped(e.target);
    if (node) { const b = node.getBoundingClientRect(); showTip(node, b.left, b.bottom); }
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });

  for (const svg of document.querySelectorAll("svg.chart")) {
    // A browser would show the title beside the read-out; a screen reader keeps it.
    const title = svg.querySelector("title");
    const text = svg.querySelector("desc");
    svg.setAttribute("aria-label", title.textContent + ". " + text.textContent);
    title.remove();
    if (!svg.dataset.chart) continue;
    const chart = JSON.parse(svg.dataset.chart);
    const cursor = svg.querySelector(".cursor");
    let at = 0;
    const place = (k) => chart.left + (chart.right - chart.left) * (chart.x[k] - chart.from) / (chart.to - chart.from);
    const read = (k, y) => {
      at = Math.max(0, Math.min(chart.x.length - 1, k));
      const box = svg.getBoundingClientRect();
      cursor.setAttribute("x1", place(at));
      cursor.setAttribute("x2", place(at));
      cursor.style.visibility = "visible";
      const rows = chart.lines.filter((line) => line.y[at] !== null)
        .map((line) => [line.tone, line.name + "  " + line.y[at].toLocaleString("en", { maximumSignificantDigits: 4 })]);
      const more = rows.length - 12;
      const shown = more > 1 ? [...rows.slice(0, 12), [null, "and " + more + " more"]] : rows;
      show([[null, chart.word + " " + chart.x[at]], ...shown], box.left + place(at) * box.width / chart.width, y);
    };
    svg.addEventListener("pointermove", (e) => {
      if (tipped(e.target)) return;
      const box = svg.getBoundingClientRect();
      const x = (e.clientX - box.left) * chart.width / box.width;
      let best = 0;
      chart.x.forEach((_, k) => { if (Math.abs(place(k) - x) < Math.abs(place(best) - x)) best = k; });
      read(best, e.clientY);
    });
    const leave = () => { cursor.style.visibility = "hidden"; hide(); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step) return;
      e.preventDefault();
      read(at + step, svg.getBoundingClientRect().top + 40);
    });
  }

  for (const select of document.querySelectorAll("select[data-chooses]")) {
    const choose = () => {
      for (const part of document.querySelectorAll('[data-among="' + select.dataset.chooses + '"]'))
        part.hidden = part.dataset.item !== select.value;
    };
    select.addEventListener("change", choose);
    choose();
  }

  // A table wider than its place says so, and fades out where it goes on.
  for (const box of document.querySelectorAll(".scroll")) {
    const look = () => {
      box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
      box.classList.toggle("more-left", box.scrollLeft > 1);
      box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    look();
    new ResizeObserver(() => requestAnimationFrame(look)).observe(box);
  }

  const large = document.getElementById("large");
  for (const picture of document.querySelectorAll("button.picture"))
    picture.addEventListener("click", () => {
      const copy = picture.cloneNode(true);
      const note = document.createElement("p");
      note.textContent = picture.getAttribute("aria-label");
      large.replaceChildren(copy, note);
      large.showModal();
    });
  large.addEventListener("click", () => large.close());

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
