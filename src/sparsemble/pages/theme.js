// Light or dark, as the reader chose last.
(() => {
  "use strict";
  const root = document.documentElement;
  const stored = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
                   set: (v) => { try { localStorage.setItem("theme", v); } catch { /* private */ } } };
  if (stored.get()) root.dataset.theme = stored.get();
  document.querySelector("button.theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
                                    : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    stored.set(root.dataset.theme);
  });
})();
