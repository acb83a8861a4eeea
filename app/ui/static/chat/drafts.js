// Questions that were written or sent and have no answer yet, one for each conversation. They live as
// long as the tab: a reload loses none, and none is shown in another conversation.
const PREFIX = "foreword-draft ";
// The conversation that hasn't begun.
const NEW = "new";

const placeOf = (id) => PREFIX + (id ?? NEW);

// `isSent`: it was sent, and its answer isn't complete.
export function draftOf(id) {
  try {
    const { text, isSent } = JSON.parse(sessionStorage.getItem(placeOf(id)));
    return { text: String(text), isSent: Boolean(isSent) };
  } catch {
    return { text: "", isSent: false };
  }
}

export function keepDraft(id, text, { isSent = false } = {}) {
  if (text) sessionStorage.setItem(placeOf(id), JSON.stringify({ text, isSent }));
  else sessionStorage.removeItem(placeOf(id));
}

export function forgetDrafts() {
  const names = Array.from({ length: sessionStorage.length }, (_, i) => sessionStorage.key(i));
  names.filter((name) => name.startsWith(PREFIX)).forEach((name) => sessionStorage.removeItem(name));
}
