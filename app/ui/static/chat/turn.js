// One question and its answer, as it comes.
import { signal } from "@preact/signals";
import { AWAY, ApiError, send } from "../api.js";
import { events } from "../sse.js";

const LOCKED = "conversation_locked";
const TRIES = 8;

export const CUT_OFF = "The connection was lost before the answer was complete; nothing of it was kept.";

// States: waiting (nothing came yet), streaming, done, stopped, failed.
export function newTurn(question, { collection = null, text = "", state = "waiting", response = null } = {}) {
  return {
    key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`,
    question,
    collection,
    text: signal(text),
    state: signal(state),
    problem: signal(null),
    note: signal(null),
    // The `foreword` block: tokens by tier, verdict, citations.
    block: signal(null),
    response: signal(response),
  };
}

export async function ask(turn, { conversation, maxTokens, abort }) {
  const body = {
    model: "default",
    input: turn.question,
    conversation,
    stream: true,
    max_output_tokens: maxTokens,
    // What documents say is no matter of chance, as in `foreword ask`.
    ...(turn.collection && {
      temperature: 0,
      tools: [{ type: "file_search", vector_store_ids: [turn.collection] }],
    }),
  };
  try {
    const answer = await sendOnceFree(body, abort.signal);
    // Read to its end: a stream that is left early is a client that left.
    let isComplete = false;
    for await (const event of events(answer)) isComplete = take(turn, event) || isComplete;
    if (!isComplete) throw new ApiError(CUT_OFF);
  } catch (error) {
    if (abort.signal.aborted) {
      turn.state.value = "stopped";
    } else {
      turn.problem.value = sentence(error);
      turn.state.value = "failed";
    }
  }
}

// A turn that was just stopped may hold its conversation for a moment longer.
async function sendOnceFree(body, signal) {
  for (let tried = 1; ; tried++) {
    try {
      return await send("POST", "v1/responses", { body, signal });
    } catch (error) {
      if (error.code !== LOCKED || tried === TRIES) throw error;
      await new Promise((later) => setTimeout(later, 1000 * (error.retryAfter ?? 1)));
      signal.throwIfAborted();
    }
  }
}

// Whether the answer is complete.
function take(turn, event) {
  switch (event.type) {
    case "response.created":
      turn.response.value = event.response.id;
      return false;
    case "response.output_text.delta":
      turn.text.value += event.delta;
      turn.state.value = "streaming";
      return false;
    case "response.completed":
    case "response.incomplete":
      finish(turn, event.response);
      return true;
    case "response.failed":
      throw new ApiError(event.response.error?.message ?? CUT_OFF);
    case "error":
      throw new ApiError(event.message ?? event.error?.message ?? CUT_OFF);
    default:
      return false;
  }
}

function finish(turn, response) {
  const said = response.output
    .filter((item) => item.type === "message")
    .flatMap((item) => item.content)
    .map((part) => part.text ?? "");
  turn.text.value = said.join("") || turn.text.value;
  turn.block.value = response.foreword ?? null;
  if (response.incomplete_details?.reason === "max_output_tokens") {
    turn.note.value = "The answer was cut off at its longest allowed length.";
  }
  turn.state.value = "done";
}

// What broke a connection is told by browsers in words of their own.
const sentence = (error) =>
  error instanceof ApiError ? error.message : error instanceof TypeError ? CUT_OFF : AWAY;
