// The conversations that the gateway keeps, and those that were opened. They live as long as the page:
// an answer goes on coming while another conversation, or another page, is looked at.
import { computed, signal } from "@preact/signals";
import { getJson, idPath, postJson, remove } from "../api.js";
import { announce, link, route } from "../state.js";
import { count, isKnown, moment } from "../format.js";
import { draftOf, keepDraft } from "./drafts.js";
import { itemsOf, toTurns } from "./history.js";
import { ask, newTurn } from "./turn.js";

const PAGE = 40;
const TITLE = 60;
const MOST_TOKENS = 32768;

export const talks = signal([]);
export const moreTalks = signal(false);
export const maxTokens = signal(512);
// Ids of the conversations that are being answered.
export const answering = signal([]);

// What is shown of one conversation. `id` is null until it has begun, `title` is for one that has none
// of its own; `isLoaded` says that what the gateway keeps of it is among the turns.
function newPlace(id, collection = "") {
  const { text, isSent } = draftOf(id);
  return {
    id: signal(id),
    collection: signal(collection),
    title: signal(null),
    turns: signal([]),
    running: signal(null),
    problem: signal(null),
    isLoaded: signal(id === null),
    isGone: signal(false),
    draft: signal(text),
    isDraftSent: signal(isSent),
  };
}

export const here = signal(newPlace(null));
export const open = computed(() => here.value.id.value);
// Those with a turn that only this page has: one that is being answered, or wasn't to its end.
const unfinished = new Map();

export async function loadTalks({ further = false } = {}) {
  const after = further && talks.value.length ? `&after=${talks.value.at(-1).id}` : "";
  const page = await getJson(`foreword/conversations?limit=${PAGE}&order=desc${after}`);
  talks.value = further ? [...talks.value, ...page.data] : page.data;
  moreTalks.value = page.has_more;
}

// One that was begun by a program has no title: its first question once it was opened, else its date.
export function titleOf(talk) {
  const seen = here.value.id.value === talk.id ? here.value.title.value : null;
  return talk.metadata?.title || seen || `Of ${moment(talk.created_at * 1000)}`;
}

export function startAnew(collection = "") {
  here.value = newPlace(null, collection);
}

export async function openTalk(id) {
  if (open.value === id) return;
  const known = unfinished.get(id);
  if (known) {
    here.value = known;
    return;
  }
  const place = newPlace(id);
  here.value = place;
  try {
    const [talk, items] = await Promise.all([getJson(`v1/conversations/${idPath(id)}`), itemsOf(id)]);
    take(place, talk, toTurns(items));
  } catch (error) {
    place.isGone.value = error.status === 404;
    place.problem.value = error.message;
  }
}

function take(place, talk, found) {
  place.collection.value = talk.metadata?.collection ?? "";
  place.title.value = found[0] ? short(found[0].question) : null;
  place.turns.value = [...found, ...place.turns.value];
  place.isLoaded.value = true;
  // The tab was left just when the answer was complete.
  const last = found.at(-1);
  if (place.isDraftSent.value && last?.text.value && last.question === place.draft.value) {
    write(place, "");
  }
}

const short = (text) => text.replace(/\s+/g, " ").trim().slice(0, TITLE);

// What stands in the box of a conversation.
export function write(place, text) {
  place.draft.value = text;
  place.isDraftSent.value = false;
  // What was sent is kept until it is answered.
  if (!place.running.value) keepDraft(place.id.value, text);
}

// The limit that is used: a field that says something else is set to it.
export function limit(tokens) {
  if (tokens >= 1) maxTokens.value = Math.min(Math.floor(tokens), MOST_TOKENS);
  return maxTokens.value;
}

export async function say(place, question) {
  const collection = place.collection.value || null;
  const turn = newTurn(question, { collection });
  const abort = new AbortController();
  write(place, "");
  keepDraft(place.id.value, question, { isSent: true });
  place.problem.value = null;
  place.turns.value = [...place.turns.value, turn];
  place.running.value = { turn, abort };
  try {
    const conversation = place.id.value ?? (await begin(place, question, collection));
    unfinished.set(conversation, place);
    answering.value = [...answering.value, conversation];
    if (abort.signal.aborted) turn.state.value = "stopped";
    else await ask(turn, { conversation, maxTokens: maxTokens.value, abort });
  } catch (error) {
    turn.problem.value = error.message;
    turn.state.value = "failed";
  } finally {
    place.running.value = null;
    answering.value = answering.value.filter((id) => id !== place.id.value);
  }
  if (turn.state.value === "done") {
    keepDraft(place.id.value, place.draft.value);
    unfinished.delete(place.id.value);
  } else if (!place.draft.value) {
    // It is in the tab's store already, and nothing is written there once a key was forgotten.
    place.draft.value = question;
  }
  announce(here.value === place ? outcome(turn) : `“${short(question)}”: ${outcome(turn)}`);
}

async function begin(place, question, collection) {
  const metadata = { title: short(question), ...(collection && { collection }) };
  const talk = await postJson("v1/conversations", { metadata });
  keepDraft(null, "");
  keepDraft(talk.id, question, { isSent: true });
  talks.value = [talk, ...talks.value];
  place.id.value = talk.id;
  if (here.value === place && route.value.page === "chat") location.hash = link("chat", talk.id);
  return talk.id;
}

export const stop = (place) => place.running.value?.abort.abort();

export async function forgetTalk(id) {
  const place = unfinished.get(id);
  if (place) stop(place);
  await remove(`v1/conversations/${idPath(id)}`);
  unfinished.delete(id);
  keepDraft(id, "");
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
