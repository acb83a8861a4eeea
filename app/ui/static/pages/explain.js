// The story of one request's re-use.
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { ReuseStrip } from "../chat/reuse_strip.js";
import { count, isKnown } from "../format.js";
import { html } from "../html.js";
import { Problem, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";

export function Explain() {
  const id = route.value.rest || "last";
  const [told, setTold] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    setTold(null);
    setProblem(null);
    getJson(`foreword/explain/${encodeURIComponent(id)}`)
      .then(setTold)
      .catch((error) => setProblem(error.message));
  }, [id]);
  const find = (event) => {
    event.preventDefault();
    const wanted = new FormData(event.currentTarget).get("id").trim();
    if (wanted) location.hash = link("explain", wanted);
  };
  return html`<${Title} text="Explain a request" />
    <form class="row" onSubmit=${find}>
      <label>Request <input key=${id} name="id" type="text" defaultValue=${id === "last" ? "" : id}
        placeholder="the last one" autocomplete="off" class="wide" /></label>
      <button type="submit">Show</button>
      <a class="button" href="#/explain/last">The last one</a>
    </form>
    <${Problem} text=${problem} />
    ${!told && !problem && html`<${Waiting} />`}
    ${told && html`<article class="story">
      ${told.lines.map((line, i) => html`<p key=${i} class=${i ? "" : "head"}>${line}</p>`)}
      <${ReuseStrip} block=${told} isExplained=${true} />
      <${Lost} lost=${told.lost} />
    </article>`}`;
}

function Lost({ lost }) {
  const parts = Object.entries(lost ?? {}).filter(([, tokens]) => isKnown(tokens));
  if (!parts.length) return null;
  return html`<h2>Lost tokens</h2><dl class="figures">${parts.map(([verdict, tokens]) => html`
    <div key=${verdict}><dt>${verdict}</dt><dd>${count(tokens)}</dd></div>`)}</dl>`;
}
