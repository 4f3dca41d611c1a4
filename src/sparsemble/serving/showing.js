// An answer as bars and words. Values are only ever put in as text.
const made = (tag, kind, ...parts) => {
  const node = document.createElement(tag);
  node.className = kind;
  node.append(...parts);
  return node;
};

const track = ({ low, high, middle }, best) => {
  const whole = made("span", `track${best ? " best" : ""}${middle === null ? "" : " between"}`, made("i", ""));
  if (middle !== null) whole.append(made("b", ""));
  for (const [name, place] of Object.entries({ low, high, middle }))
    if (place !== null) whole.style.setProperty(`--${name}`, place);
  return whole;
};

const bars = (own, choose) => {
  const highest = Math.max(...own.map((bar) => bar.high));
  const parts = own.flatMap((bar) => {
    const name = made(choose ? "button" : "span", "name", bar.label);
    name.title = bar.label;
    if (choose) { name.type = "button"; name.addEventListener("click", () => choose(bar.label)); }
    return [name, track(bar, bar.high === highest), made("span", "value", bar.text)];
  });
  return made("div", own.length === 1 ? "bars alone" : "bars", ...parts);
};

const view = ({ answer, note, bars: own }, choose) => [
  made("p", answer.length > 14 ? "said long" : "said", answer),
  made("p", "note", note),
  ...(own.length ? [bars(own, choose)] : []),
];

const find = (name) => document.getElementById(name);

export const showAnswer = ({ together, members, more, agreement }, choose) => {
  find("trouble").hidden = true;
  find("answer").classList.remove("stale");
  find("answer").replaceChildren(...view(together, choose));
  find("agreement").textContent = agreement && `${agreement}.`;
  find("members").replaceChildren(...members.map((member, k) => {
    const differs = together.bars.every((bar) => bar.middle === null) && member.answer !== together.answer;
    return made("li", differs ? "apart" : "", made("small", "", `member ${k + 1}`), ...view(member, null));
  }));
  find("more").textContent = more ? `and ${more} more` : "";
  find("apart").hidden = false;
};

export const showTrouble = (sentence) => {
  find("trouble").textContent = sentence;
  find("trouble").hidden = false;
  find("answer").classList.add("stale");
  find("apart").hidden = true;
};
