// Where one writes, and what is asked. What is written belongs to its conversation.
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { html } from "../html.js";
import * as store from "./talks.js";

export function Composer({ place }) {
  const [choices, setChoices] = useState([]);
  useEffect(() => {
    getJson("v1/vector_stores?limit=100").then((page) => setChoices(page.data))
      .catch((error) => (place.problem.value = error.message));
  }, [place]);
  const isBusy = place.running.value !== null;
  const chosen = place.collection.value;
  const submit = (event) => {
    event.preventDefault();
    const question = place.draft.value.trim();
    if (question && !isBusy && place.isLoaded.value) store.say(place, question);
  };
  const pressed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const isUnanswered = place.isDraftSent.value && place.isLoaded.value && !isBusy;
  return html`<form class="composer" onSubmit=${submit}>
    ${isUnanswered && html`<p class="note" role="status">This question has no answer: the page was left
      before it was complete. Nothing of it was kept; you can send it again.</p>`}
    <label class="hidden" for="question">Your question</label>
    <textarea id="question" rows="2" value=${place.draft.value} placeholder="Ask a question"
      onInput=${(event) => store.write(place, event.currentTarget.value)} onKeyDown=${pressed}
      aria-describedby="keys"></textarea>
    <div class="row">
      <label>Answer from <select onChange=${(event) => (place.collection.value = event.currentTarget.value)}>
        <option value="" selected=${!chosen}>the model alone</option>
        ${choices.map((each) => html`<option key=${each.id} value=${each.id}
          selected=${each.id === chosen}>${each.name || each.id}</option>`)}
      </select></label>
      <label>Tokens at most <input type="number" min="1" max="32768" value=${store.maxTokens.value}
        onInput=${(event) => store.limit(event.currentTarget.valueAsNumber)}
        onBlur=${(event) => (event.currentTarget.value = store.limit(event.currentTarget.valueAsNumber))}
        /></label>
      <span class="grow dim" id="keys">Shift+Enter: new line</span>
      ${isBusy
        ? html`<button key="stop" type="button" class="danger" onClick=${() => store.stop(place)}>Stop</button>`
        : html`<button key="send" type="submit" class="main" disabled=${!place.isLoaded.value}>Send</button>`}
    </div>
  </form>`;
}
