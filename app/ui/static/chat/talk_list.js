// The conversations at the side; on a phone they are folded away.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { Confirm, Problem } from "../parts.js";
import { link, route } from "../state.js";
import * as store from "./talks.js";

export function TalkList() {
  const [going, setGoing] = useState(null);
  const [isShown, setShown] = useState(false);
  const [problem, setProblem] = useState(null);
  const tell = (error) => setProblem(error.message);
  const forget = (talk) => store.forgetTalk(talk.id)
    .then(() => { if (route.value.rest === talk.id) location.hash = link("chat"); })
    .catch(tell);
  return html`<nav class="talks" aria-label="Conversations">
    <div class="row">
      <a class="button grow" href=${link("chat")} onClick=${() => store.startAnew()}>New conversation</a>
      <button type="button" class="fold" aria-expanded=${isShown ? "true" : "false"}
        aria-controls="talks" onClick=${() => setShown(!isShown)}>Earlier ones</button>
    </div>
    <div id="talks" class=${isShown ? "shown" : ""}>
      <${Problem} text=${problem} />
      <ul>${store.talks.value.map((talk) => html`<li key=${talk.id}>
        <a href=${link("chat", talk.id)} title=${store.titleOf(talk)} onClick=${() => setShown(false)}
          aria-current=${talk.id === store.open.value ? "page" : null}><span
          class="two-lines">${store.titleOf(talk)}</span>${store.answering.value.includes(talk.id) && html`
          <span class="dim">is being answered…</span>`}</a>
        <button type="button" class="quiet icon" aria-label=${`Delete ${store.titleOf(talk)}`}
          onClick=${() => setGoing(talk)}>×</button></li>`)}</ul>
      ${store.moreTalks.value && html`<button type="button" class="quiet"
        onClick=${() => store.loadTalks({ further: true }).catch(tell)}>Older ones</button>`}
    </div>
    ${going && html`<${Confirm} title="Delete this conversation?" action="Delete"
      text=${`“${store.titleOf(going)}” and its answers can't be had back.`}
      onDone=${() => forget(going)} onClose=${() => setGoing(null)} />`}
  </nav>`;
}
