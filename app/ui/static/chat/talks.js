// The conversations that the gateway keeps, and the one that is open. Lives as long as the page, so
// that an answer goes on coming while another page is looked at.
import { signal } from "@preact/signals";
import { getJson, postJson, remove } from "../api.js";
import { announce, link } from "../state.js";
import { count, isKnown } from "../format.js";
import { ask, newTurn } from "./turn.js";

const PAGE = 40;
const TITLE = 60;

export const talks = signal([]);
export const moreTalks = signal(false);
export const open = signal(null);
export const turns = signal([]);
export const problem = signal(null);
export const running = signal(null);
export const maxTokens = signal(512);

export async function loadTalks({ further = false } = {}) {
  const after = further && talks.value.length ? `&after=${talks.value.at(-1).id}` : "";
  const page = await getJson(`foreword/conversations?limit=${PAGE}&order=desc${after}`);
  talks.value = further ? [...talks.value, ...page.data] : page.data;
  moreTalks.value = page.has_more;
}

export const titleOf = (talk) => talk.metadata?.title || "Untitled conversation";

export function startAnew() {
  stop();
  open.value = null;
  turns.value = [];
  problem.value = null;
}

export async function openTalk(id) {
  if (open.value === id) return;
  startAnew();
  open.value = id;
  const items = [];
  let after = "";
  for (let more = true; more; ) {
    const page = await getJson(`v1/conversations/${id}/items?order=asc&limit=100${after}`);
    items.push(...page.data);
    after = `&after=${page.last_id}`;
    more = page.has_more;
  }
  if (open.value === id) turns.value = toTurns(items);
}

// A field that is empty for a moment, or says 0, leaves it as it was.
export function limit(tokens) {
  if (tokens >= 1) maxTokens.value = Math.floor(tokens);
}

const textOf = (item) => (item.content ?? []).map((part) => part.text ?? "").join("");

function toTurns(items) {
  const found = [];
  for (const item of items.filter((item) => item.type === "message")) {
    if (item.role === "user") found.push(newTurn(textOf(item), { state: "done" }));
    if (item.role === "assistant") {
      const turn = found.at(-1) ?? newTurn("", { state: "done" });
      if (!found.length) found.push(turn);
      turn.text.value += textOf(item);
      turn.response.value = responseOf(item);
    }
  }
  return found;
}

// A message of an answer carries the id of its response and its number in it.
const responseOf = (item) => {
  const hex = /^msg_([0-9a-f]{32})[0-9a-f]{2}$/.exec(item.id)?.[1];
  return hex ? `resp_${hex}` : null;
};

export async function loadBlock(turn) {
  const response = await getJson(`v1/responses/${turn.response.value}`);
  const search = response.tools.find((tool) => tool.type === "file_search");
  turn.collection = search?.vector_store_ids[0] ?? null;
  turn.block.value = response.foreword;
}

export async function say(question, collection) {
  problem.value = null;
  const turn = newTurn(question, { collection });
  turns.value = [...turns.value, turn];
  const abort = new AbortController();
  running.value = { turn, abort };
  try {
    const conversation = open.value ?? (await begin(question, collection));
    if (abort.signal.aborted) turn.state.value = "stopped";
    else await ask(turn, { conversation, maxTokens: maxTokens.value, abort });
  } catch (error) {
    turn.problem.value = error.message;
    turn.state.value = "failed";
  } finally {
    if (running.value?.turn === turn) running.value = null;
  }
  announce(outcome(turn));
  return turn;
}

async function begin(question, collection) {
  const title = question.replace(/\s+/g, " ").trim().slice(0, TITLE);
  const metadata = { title, ...(collection && { collection }) };
  const talk = await postJson("v1/conversations", { metadata });
  talks.value = [talk, ...talks.value];
  open.value = talk.id;
  location.hash = link("chat", talk.id);
  return talk.id;
}

export function stop() {
  running.value?.abort.abort();
}

export async function forgetTalk(id) {
  await remove(`v1/conversations/${id}`);
  talks.value = talks.value.filter((talk) => talk.id !== id);
  if (open.value === id) startAnew();
}

function outcome(turn) {
  if (turn.state.value === "failed") return `The answer failed. ${turn.problem.value}`;
  if (turn.state.value === "stopped") return "Stopped.";
  const block = turn.block.value;
  const told = isKnown(block?.cached_tokens)
    ? `${count(block.cached_tokens)} of ${count(block.prompt_tokens)} prompt tokens were re-used.`
    : "How many tokens were re-used is unknown.";
  return `The answer is complete. ${told}`;
}
