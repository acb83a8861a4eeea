// What the gateway keeps of a conversation, as turns.
import { getJson, idPath } from "../api.js";
import { newTurn } from "./turn.js";

export async function itemsOf(conversation) {
  const items = [];
  let after = "";
  for (let more = true; more; ) {
    const address = `v1/conversations/${idPath(conversation)}/items?order=asc&limit=100${after}`;
    const page = await getJson(address);
    items.push(...page.data);
    after = `&after=${page.last_id}`;
    more = page.has_more;
  }
  return items;
}

const textOf = (item) => (item.content ?? []).map((part) => part.text ?? "").join("");

export function toTurns(items) {
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

// Its figures and sources; a turn whose response isn't kept any more has none.
export async function loadBlock(turn) {
  try {
    const response = await getJson(`v1/responses/${turn.response.value}`);
    const search = response.tools.find((tool) => tool.type === "file_search");
    turn.collection = search?.vector_store_ids[0] ?? null;
    turn.block.value = response.foreword;
  } catch (error) {
    turn.note.value = `What was re-used for this answer can't be shown: ${error.message}`;
  }
}
