// What is asked, sent to the service; the newest question counts, and one is under way at a time.
import { filled, json, written } from "./asking.js";
import { drawn } from "./drawing.js";
import { showAnswer, showTrouble } from "./showing.js";

const form = JSON.parse(document.querySelector("[data-form]").dataset.form);
const kinds = { picture: drawn, fields: filled, writing: written, values: json };

const post = async (path, content) => {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.detail);
  return found;
};

let waiting = null, busy = false;
const ask = async (row) => {
  waiting = { row };
  if (busy) return;
  busy = true;
  while (waiting) {
    const asked = waiting;
    waiting = null;
    try {
      const answer = await post("show", { row: asked.row });
      if (!waiting) showAnswer(answer, chosen);
    } catch (trouble) {
      if (!waiting) showTrouble(trouble.message);
    }
  }
  busy = false;
};

const chosen = kinds[form.kind](form, ask, post, showTrouble) ?? null;
