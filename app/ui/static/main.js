// The frame around all pages: where one goes, whether the gateway answers, and who one is.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { getJson } from "./api.js";
import { forgetDrafts } from "./chat/drafts.js";
import { open as openTalk } from "./chat/talks.js";
import { html } from "./html.js";
import { KeyForm } from "./key_form.js";
import { Chat } from "./pages/chat.js";
import { Collections } from "./pages/collections.js";
import { Explain } from "./pages/explain.js";
import { Plan } from "./pages/plan.js";
import { ReportPage } from "./pages/report.js";
import { Templates } from "./pages/templates.js";
import { Dialog, Empty, hasFiles, Title } from "./parts.js";
import { announce, announced, chooseTheme, forgetKey, hasKey, key, link, refused, route, theme } from "./state.js";

const PAGES = {
  chat: { name: "Chat", view: Chat },
  collections: { name: "Collections", view: Collections },
  report: { name: "Report", view: ReportPage },
  templates: { name: "Templates", view: Templates },
  plan: { name: "RAG or CAG", view: Plan },
  explain: { view: Explain },
};
const THEMES = { auto: "light", light: "dark", dark: "auto" };
const LOOK_MS = 15_000;

function App() {
  const page = PAGES[route.value.page];
  return html`<a class="skip" href="#content" onClick=${toContent}>To the content</a>
    <header class="top">
      <a class="brand" href="#/chat"><img src="icon.svg" alt="" width="22" height="22" />Foreword</a>
      <nav aria-label="Pages"><ul>${Object.entries(PAGES).filter(([, p]) => p.name).map(([id, p]) => html`
        <li key=${id}><a href=${link(id, id === "chat" ? openTalk.value ?? "" : "")}
          aria-current=${route.value.page === id ? "page" : null}>${p.name}</a></li>`)}</ul></nav>
      <${Standing} />
      <button type="button" class="quiet" onClick=${() => chooseTheme(THEMES[theme.value])}>${`Colours: ${theme.value}`}</button>
      ${hasKey.value && html`<button type="button" class="quiet" onClick=${leave}>Forget key</button>`}
    </header>
    <main id="content" tabindex="-1">
      ${refused.value !== null
        ? html`<${KeyForm} reason=${refused.value} />`
        : page
          ? html`<${page.view} key=${`${route.value.page} ${key.value ? "with" : "without"}`} />`
          : html`<${Title} text="Nothing here" /><${Empty}><p>There is no such page.</p></${Empty}>`}
    </main>
    <div class="hidden" role="status" aria-live="polite" id="announced">${announced.value}</div>`;
}

function toContent(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

// A new document: nothing that the key has shown stays behind.
function leave() {
  forgetKey();
  forgetDrafts();
  location.reload();
}

function Standing() {
  const [standing, setStanding] = useState(null);
  const [isOpened, setOpened] = useState(false);
  useEffect(() => {
    const look = () => readiness().then(setStanding);
    look();
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [key.value]);
  if (!standing) return null;
  return html`<button type="button" class=${`quiet standing ${standing.kind}`} onClick=${() => setOpened(true)}
      aria-label=${`The gateway is ${standing.text}`}><span class="dot"></span>${standing.text}</button>
    ${isOpened && html`<${Dialog} title=${`The gateway is ${standing.text}`} onClose=${() => setOpened(false)}>
      ${standing.reasons.length
        ? html`<ul class="plain">${standing.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>`
        : html`<p>${standing.kind === "good" ? "Nothing stands in the way of requests." : "Why is told to admins."}</p>`}
    </${Dialog}>`}`;
}

const KINDS = { ok: ["good", "ready"], degraded: ["fair", "degraded"] };

async function readiness() {
  try {
    const { status, reasons = [] } = await getJson("readyz");
    const [kind, text] = KINDS[status] ?? ["fair", status];
    return { kind, text, reasons };
  } catch (error) {
    if (!error.status) return { kind: "bad", text: "away", reasons: [error.message] };
    return { kind: "bad", text: "not ready", reasons: reasonsIn(error.text) };
  }
}

// While it isn't ready, the gateway says why with the status 503.
function reasonsIn(text) {
  try {
    return JSON.parse(text).reasons ?? [];
  } catch {
    return [];
  }
}

// A file that is dropped where nothing takes it would be opened by the browser in place of the page.
for (const kind of ["dragover", "drop"]) {
  addEventListener(kind, (event) => {
    if (event.defaultPrevented || !hasFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
    if (kind === "drop") announce("Files are taken in on a collection's page.");
  });
}

render(html`<${App} />`, document.getElementById("app"));
