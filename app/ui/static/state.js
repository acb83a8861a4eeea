// What several parts of the page look at: where we are, the key, what a screen reader is told.
import { computed, signal } from "@preact/signals";

const KEY = "foreword-key";
const THEME = "foreword-theme";

function whereWeAre() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return {
    page: page || "chat",
    rest: rest.map(decoded).join("/"),
    query: new URLSearchParams(query),
  };
}

// What isn't encoded as it should be is taken as it stands.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal(whereWeAre());
addEventListener("hashchange", () => (route.value = whereWeAre()));

export function link(page, rest = "", query = {}) {
  const asked = new URLSearchParams(query).toString();
  return `#/${page}${rest ? `/${encodeURIComponent(rest)}` : ""}${asked ? `?${asked}` : ""}`;
}

// The key lives as long as the tab and is sent in a header alone: never in an address, a cookie or
// a store that outlives the tab.
export const key = signal(sessionStorage.getItem(KEY));
export const hasKey = computed(() => key.value !== null);
// Set once the gateway refused us: the sentence that it refused with.
export const refused = signal(null);

export function keepKey(text) {
  sessionStorage.setItem(KEY, text);
  key.value = text;
  refused.value = null;
}

export function forgetKey() {
  sessionStorage.removeItem(KEY);
  key.value = null;
}

export const announced = signal("");
export const announce = (text) => (announced.value = text);

export const theme = signal(document.documentElement.dataset.theme ?? "auto");

export function chooseTheme(name) {
  theme.value = name;
  if (name === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(THEME);
  } else {
    document.documentElement.dataset.theme = name;
    localStorage.setItem(THEME, name);
  }
}
