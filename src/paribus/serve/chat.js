"use strict";
// Text of people and models is only ever put into the page as text.
const NOBODY = "";
const N_ARMS = 2;
const MAX_OFFERS = 8;
const place = (id) => document.getElementById(id);
const cards = new Map(); // of models, by name
let arms = []; // { side, name, card, messages, turns, and the opening message once there is one }
let stopping = null; // ends the answers that are being made

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const count = (number) => number.toLocaleString("en");

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${(1000 * seconds).toPrecision(3)}\u00a0ms`;
  return `${seconds.toPrecision(3)}\u00a0s`;
}

function say(fault) {
  place("fault").textContent = fault;
  place("fault").hidden = !fault;
}

async function loadModels() {
  const response = await fetch("v1/models");
  if (!response.ok) throw new Error((await readFault(response)).message);
  for (const card of (await response.json()).data) {
    if (!card.fills_masks) cards.set(card.id, card);
  }
  if (!cards.size) throw new Error("No model here says what comes next; models that fill masks have /fill-mask.");
  const names = [...cards.keys()];
  for (let side = 0; side < N_ARMS; side += 1) {
    const select = place(`model-${side}`);
    if (side > 0) select.append(new Option("nobody", NOBODY));
    for (const name of names) select.append(new Option(name, name));
    select.value = names[side] ?? NOBODY;
    select.addEventListener("change", reset);
  }
  reset();
}

function reset() {
  if (stopping) stopping.abort();
  arms = [];
  place("log").replaceChildren();
  place("cards").replaceChildren();
  place("turns").hidden = true;
  place("turns-body").replaceChildren();
  say("");
  for (let side = 0; side < N_ARMS; side += 1) {
    const name = place(`model-${side}`).value;
    if (name === NOBODY) continue;
    const arm = { side, name, card: cards.get(name), messages: [], turns: [] };
    arms.push(arm);
    place("cards").append(cardOf(arm));
  }
  showOffers();
}

function cardOf(arm) {
  const { card } = arm;
  const box = element("section", `arm arm-${arm.side} card`);
  box.append(element("b", "", arm.name));
  box.append(element("p", "", `${card.architecture} · ${count(card.parameters)} parameters · window of ${count(card.max_model_len)}`));
  const within = card.cache_within_answer ? "yes" : "no";
  box.append(element("p", "", `Cache kept within an answer: ${within}; across turns: ${card.cache_across_turns}`));
  if (!card.can_chat) box.append(element("p", "", "It was not trained on conversations, and goes on from all that was said."));
  if (card.taught) box.append(element("p", "", card.taught));
  return box;
}

// Messages to try: at first questions that a model was taught to answer, then what can follow the first one.
function showOffers() {
  const opening = arms[0]?.opening;
  const offers = new Set(arms.flatMap((arm) => offersOf(arm.card, opening)));
  place("offers").replaceChildren();
  for (const text of [...offers].slice(0, MAX_OFFERS)) addOffer(text, () => send(text));
  if (opening !== undefined && offers.size) addOffer("New conversation", reset).className = "anew";
}

function offersOf(card, opening) {
  const followUps = card.follow_ups?.[opening];
  if (followUps?.length) return followUps;
  return card.prompts ?? [];
}

function addOffer(text, act) {
  const button = element("button", "", text);
  button.type = "button";
  button.addEventListener("click", act);
  place("offers").append(button);
  return button;
}

async function send(text) {
  if (stopping || !text.trim() || !arms.length) return;
  say("");
  stopping = new AbortController();
  setBusy(true);
  const turn = element("section", "turn");
  turn.append(element("p", "user text", text));
  const row = element("div", "row");
  turn.append(row);
  place("log").append(turn);
  const boxes = arms.map((arm) => answerBox(arm, row));
  turn.scrollIntoView({ block: "nearest" });
  await Promise.all(arms.map((arm, number) => answer(arm, text, boxes[number], stopping.signal)));
  stopping = null;
  showOffers();
  setBusy(false);
  showTurns();
  turn.scrollIntoView({ block: "nearest" });
}

function setBusy(isBusy) {
  place("send").hidden = isBusy;
  place("stop").hidden = !isBusy;
  for (const button of place("offers").children) button.disabled = isBusy;
  if (!isBusy) place("message").focus();
}

function answerBox(arm, row) {
  const box = element("article", `arm arm-${arm.side} answer is-open`);
  box.append(element("p", "who", arm.name), element("p", "text", ""));
  row.append(box);
  return box;
}

async function answer(arm, text, box, signal) {
  arm.opening ??= text;
  arm.messages.push({ role: "user", content: text });
  const told = { text: "", usage: null, timings: null, nDropped: 0, seconds: 0 };
  try {
    const response = await ask(arm, told, signal);
    const begin = performance.now();
    for await (const chunk of events(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0];
      if (choice) told.text += choice.delta?.content ?? choice.text ?? "";
      if (chunk.usage) Object.assign(told, { usage: chunk.usage, timings: chunk.timings });
      box.children[1].textContent = told.text;
    }
    told.seconds = (performance.now() - begin) / 1000;
  } catch (fault) {
    if (fault.name !== "AbortError") box.append(element("p", "fault", fault.message));
    else box.append(element("p", "note", "Stopped."));
  }
  box.classList.remove("is-open");
  if (!told.text) {
    box.classList.add("is-empty");
    box.children[1].textContent = "(no text)";
  }
  arm.messages.push({ role: "assistant", content: told.text });
  arm.turns.push(told);
  showCost(told, box);
}

// Asks for an answer. Where the window is full, the oldest exchange is dropped, and another attempt is made.
async function ask(arm, told, signal) {
  for (;;) {
    const response = await fetch(arm.card.can_chat ? "v1/chat/completions" : "v1/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(bodyFor(arm)),
      signal,
    });
    if (response.ok) return response;
    const fault = await readFault(response);
    if (fault.code !== "context_length_exceeded" || !dropOldest(arm.messages)) throw new Error(fault.message);
    told.nDropped += 2;
  }
}

function bodyFor(arm) {
  const wanted = Number(place("tokens").value) || 64;
  const body = {
    model: arm.name,
    temperature: Number(place("temperature").value) || 0,
    max_tokens: Math.max(1, Math.min(wanted, Math.floor(arm.card.max_model_len / 4))),
    seed: arm.turns.length,
    stream: true,
    stream_options: { include_usage: true },
  };
  if (arm.card.can_chat) return { ...body, messages: arm.messages };
  return { ...body, prompt: arm.messages.map((message) => message.content).join("") };
}

function dropOldest(messages) {
  if (messages.length < 3) return false;
  messages.splice(0, 2);
  return true;
}

async function readFault(response) {
  try {
    return (await response.json()).error;
  } catch {
    return { message: `The server answers with status ${response.status}.`, code: null };
  }
}

// The chunks of server-sent events, until the server says that it is done.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const data = block.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

function showCost(told, box) {
  if (told.nDropped) {
    box.append(element("p", "note", `The window is full: the oldest ${told.nDropped} turns were dropped, and what follows them is read again.`));
  }
  if (!told.usage) return;
  const cached = told.usage.prompt_tokens_details.cached_tokens;
  const { read_tokens: read, seconds_to_first_token: first } = told.timings;
  const bar = element("div", "bar");
  const parts = [["cached", cached], ["read", read]];
  for (const [name, number] of parts) {
    const part = element("span", name);
    part.style.width = `${(100 * number) / Math.max(cached + read, 1)}%`;
    bar.append(part);
  }
  const words = `${count(cached)} from the cache, ${count(read)} read · first token after ${duration(first)} · ${count(told.usage.completion_tokens)} said`;
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `${cached} tokens from the cache, ${read} read`);
  box.append(bar, element("p", "cost", words));
}

function showTurns() {
  const names = element("tr");
  const heads = element("tr");
  names.append(element("th"));
  heads.append(element("th", "", "turn"));
  for (const arm of arms) {
    const own = element("th", `arm arm-${arm.side}`, arm.name);
    own.colSpan = 3;
    names.append(own);
    for (const name of ["from cache", "read", "first token"]) heads.append(element("th", "", name));
  }
  place("turns-head").replaceChildren(names, heads);
  const rows = [];
  const nTurns = Math.max(0, ...arms.map((arm) => arm.turns.length));
  for (let number = 0; number < nTurns; number += 1) {
    const row = element("tr");
    row.append(element("td", "", `${number + 1}`));
    for (const arm of arms) {
      const told = arm.turns[number];
      const known = told && told.usage;
      row.append(element("td", "", known ? count(told.usage.prompt_tokens_details.cached_tokens) : "–"));
      row.append(element("td", "", known ? count(told.timings.read_tokens) : "–"));
      row.append(element("td", "", known ? duration(told.timings.seconds_to_first_token) : "–"));
    }
    rows.push(row);
  }
  place("turns-body").replaceChildren(...rows);
  place("turns").hidden = nTurns === 0;
}

function submit() {
  const box = place("message");
  const text = box.value;
  if (stopping || !text.trim()) return;
  box.value = "";
  send(text);
}

place("composer").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
place("settings").addEventListener("submit", (event) => event.preventDefault());
place("reset").addEventListener("click", reset);
place("stop").addEventListener("click", () => stopping && stopping.abort());
place("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
loadModels().catch((fault) => say(fault.message));
