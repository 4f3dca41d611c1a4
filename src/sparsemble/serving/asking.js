// Rows that are typed: fields of a table, a text to go on with, JSON.
const form = () => document.getElementById("asking");

const valueOf = (input, field) => {
  if (input.value === "") return null;
  if (field.holds === "truth") return input.value === "true";
  return field.holds === "category" || field.holds === "date" ? input.value : Number(input.value);
};

export const filled = ({ fields, named }, ask) => {
  const row = () => {
    const values = fields.map((field, k) => valueOf(form().elements[String(k)], field));
    return named ? Object.fromEntries(fields.map((field, k) => [field.name, values[k]])) : values;
  };
  form().addEventListener("input", () => ask(row()));
  form().addEventListener("reset", () => setTimeout(() => ask(row())));
  form().addEventListener("submit", (event) => event.preventDefault());
  ask(row());
};

export const written = ({ end }, ask, post, trouble) => {
  const { text, words, temperature } = form().elements;
  const said = document.getElementById("said");
  let seed = 0;
  const changed = () => { said.textContent = ""; ask(text.value); };
  const goOn = async () => {
    const begun = text.value;
    try {
      const found = await post("continue", {
        text: begun, words: Number(words.value), temperature: Number(temperature.value), seed: seed++,
      });
      if (text.value !== begun) return; // the reader wrote on meanwhile
      text.value = found.text;
      text.scrollTop = text.scrollHeight;
      changed();
      if (found.unknown) said.textContent = `${found.unknown} of your words are not known: read as <unk>.`;
    } catch (problem) { trouble(problem.message); }
  };
  text.addEventListener("input", changed);
  form().addEventListener("reset", () => setTimeout(changed));
  form().addEventListener("submit", (event) => { event.preventDefault(); goOn(); });
  changed();
  return (word) => {
    const apart = text.value === "" || /\s$/.test(text.value) ? "" : " ";
    text.value += word === end ? "\n" : apart + word;
    changed();
  };
};

export const json = (_, ask, __, trouble) => {
  const { json: text } = form().elements;
  const changed = () => {
    try { ask(JSON.parse(text.value)); } catch (problem) { trouble(problem.message); }
  };
  text.addEventListener("input", changed);
  form().addEventListener("submit", (event) => event.preventDefault());
  changed();
};
