// Requests to the gateway that served this page, and to nobody else.
import { key, refused } from "./state.js";

// One level up from `/ui/`: holds behind a proxy that serves the gateway under a prefix, too.
const ROOT = new URL("..", document.baseURI);

export class ApiError extends Error {
  constructor(message, { status = 0, code = null, retryAfter = null, text = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter, text });
  }
}

// An id as a part of a path, whatever it holds.
export const idPath = encodeURIComponent;

export const AWAY = "The gateway can't be reached: check that it runs, then try again.";

function headers(body) {
  const sent = {};
  if (key.value) sent.authorization = `Bearer ${key.value}`;
  if (typeof body === "string") sent["content-type"] = "application/json";
  return sent;
}

export async function send(method, path, { body, signal } = {}) {
  const data = body === undefined || body instanceof FormData ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(new URL(path, ROOT), {
      method, body: data, headers: headers(data), signal, cache: "no-store", credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(AWAY);
  }
  if (!answer.ok) throw refusal(answer.status, await answer.text(), answer.headers.get("retry-after"));
  return answer;
}

export const getJson = async (path, options) => (await send("GET", path, options)).json();
export const postJson = async (path, body, options) =>
  (await send("POST", path, { ...options, body })).json();
export const remove = (path) => send("DELETE", path);

// What an error advises to people who write programs, as it is called on these pages.
const WORDS = [
  [/;? GET \/\S+ lists (yours|them)/g, ""],
  [/\b(max_output_tokens|max_completion_tokens|max_tokens)\b/g, "“Tokens at most”"],
  [/, let it be compacted \(foreword\.compaction\), or/g, " or"],
  [/fork the conversation at an earlier item/g, "begin a new conversation"],
  [/, or fork it$/g, ""],
];
const inWords = (message) => WORDS.reduce((text, [word, plain]) => text.replace(word, plain), message);

export function refusal(status, text, retryAfter = null) {
  let told = {};
  try {
    told = JSON.parse(text).error ?? {};
  } catch {
    // An answer of a proxy, say: the status is all there is.
  }
  const message = told.message ? inWords(told.message) : `The gateway answered with status ${status}.`;
  if (status === 401) refused.value = message;
  return new ApiError(message, { status, code: told.code, retryAfter: Number(retryAfter) || null, text });
}

// `fetch` tells nothing of how far an upload is; this does. `onProgress` gets 0 to 1.
export function upload(path, file, { fields = {}, onProgress, signal }) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", new URL(path, ROOT));
    for (const [name, value] of Object.entries(headers(form))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    };
    request.onload = () => {
      if (request.status === 200) resolve(JSON.parse(request.responseText));
      else reject(refusal(request.status, request.responseText));
    };
    request.onerror = () => reject(new ApiError(AWAY));
    request.onabort = () => reject(new ApiError("The upload was given up."));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
