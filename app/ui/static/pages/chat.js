// The chat: conversations at the side, the open one with its answers, and where one writes.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { Citations } from "../chat/citations.js";
import { ReuseStrip } from "../chat/reuse_strip.js";
import * as store from "../chat/talks.js";
import { html } from "../html.js";
import { markdown } from "../markdown.js";
import { Confirm, Problem, Title } from "../parts.js";
import { link, route } from "../state.js";

const AT_END = 80;

export function Chat() {
  const asked = route.value;
  const wanted = asked.rest || null;
  const [collection, setCollection] = useState(asked.query.get("collection") ?? "");
  useEffect(() => {
    store.loadTalks().catch(tell);
  }, []);
  useEffect(() => {
    if (wanted) store.openTalk(wanted).catch(tell);
    else if (store.open.value) store.startAnew();
  }, [wanted]);
  const talk = store.talks.value.find((talk) => talk.id === store.open.value);
  const bound = talk?.metadata?.collection;
  useEffect(() => {
    if (bound) setCollection(bound);
  }, [bound]);
  return html`<div class="chat">
    <${Talks} />
    <div class="talk">
      <${Title} text="Chat" />
      <${Answers} />
      <${Problem} text=${store.problem.value} />
      <${Composer} collection=${collection} choose=${setCollection} />
    </div>
  </div>`;
}

const tell = (error) => (store.problem.value = error.message);

function Talks() {
  const [going, setGoing] = useState(null);
  const forget = (talk) => store.forgetTalk(talk.id)
    .then(() => { if (route.value.rest === talk.id) location.hash = link("chat"); })
    .catch(tell);
  return html`<nav class="talks" aria-label="Conversations">
    <a class="button" href=${link("chat")} onClick=${store.startAnew}>New conversation</a>
    <ul>${store.talks.value.map((talk) => html`<li key=${talk.id}>
      <a href=${link("chat", talk.id)}
        aria-current=${talk.id === store.open.value ? "page" : null}>${store.titleOf(talk)}</a>
      <button type="button" class="quiet icon" aria-label=${`Delete ${store.titleOf(talk)}`}
        onClick=${() => setGoing(talk)}>×</button></li>`)}</ul>
    ${store.moreTalks.value && html`<button type="button" class="quiet"
      onClick=${() => store.loadTalks({ further: true }).catch(tell)}>Older ones</button>`}
    ${going && html`<${Confirm} title="Delete this conversation?" action="Delete"
      text=${`“${store.titleOf(going)}” and its answers can't be had back.`}
      onDone=${() => forget(going)} onClose=${() => setGoing(null)} />`}
  </nav>`;
}

function Answers() {
  const list = useRef(null);
  const isEmpty = store.turns.value.length === 0;
  // Follows the answer, unless somebody scrolls away from its end.
  useEffect(() => {
    if (isEmpty) return;
    const page = document.documentElement;
    let isFollowing = true;
    const scrolled = () => (isFollowing = scrollY + innerHeight > page.scrollHeight - AT_END);
    const grown = new ResizeObserver(() => {
      if (isFollowing) scrollTo({ top: page.scrollHeight, behavior: "instant" });
    });
    grown.observe(list.current);
    addEventListener("scroll", scrolled, { passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("scroll", scrolled);
    };
  }, [isEmpty, store.open.value]);
  if (isEmpty) {
    return html`<div class="empty"><p>Ask something. Under each answer you see how much of the prompt
      the engine had already computed, where that lay, and why the rest was not re-used.</p>
      <p>To ask about documents, choose a collection below or <a href=${link("collections")}>make
      one</a>.</p></div>`;
  }
  return html`<ol class="turns" ref=${list} aria-label="Conversation">
    ${store.turns.value.map((turn) => html`<${Turn} key=${turn.key} turn=${turn} />`)}</ol>`;
}

function Turn({ turn }) {
  const state = turn.state.value;
  const block = turn.block.value;
  return html`<li class="turn" data-state=${state}>
    <div class="question"><span class="hidden">You asked: </span>${turn.question}</div>
    <div class="answer" aria-busy=${state === "waiting" || state === "streaming"}>
      <span class="hidden">Answer: </span>
      ${state === "waiting" && html`<p class="waiting">Waiting for the first token…</p>`}
      <${Rendered} text=${turn.text} />
      <${Problem} text=${turn.problem.value} />
      ${state === "stopped" && html`<p class="note">You stopped this answer; the conversation goes on
        without it.</p>`}
      ${turn.note.value && html`<p class="note">${turn.note.value}</p>`}
    </div>
    ${block && html`<${Citations} found=${block.citations} collection=${turn.collection} />`}
    ${block && html`<${ReuseStrip} block=${block} />`}
    ${!block && state === "done" && turn.response.value && html`<button type="button" class="quiet"
      onClick=${() => store.loadBlock(turn).catch((error) => (turn.problem.value = error.message))}>
      Show re-use and sources</button>`}
  </li>`;
}

// Drawn at most once a frame, however fast tokens come.
function Rendered({ text }) {
  const place = useRef(null);
  useSignalEffect(() => {
    const said = text.value;
    const frame = requestAnimationFrame(() => place.current?.replaceChildren(markdown(said)));
    return () => cancelAnimationFrame(frame);
  });
  return html`<div class="markdown" ref=${place}></div>`;
}

function Composer({ collection, choose }) {
  const [text, setText] = useState("");
  const [choices, setChoices] = useState([]);
  const box = useRef(null);
  useEffect(() => {
    getJson("v1/vector_stores?limit=100").then((page) => setChoices(page.data)).catch(tell);
  }, []);
  const isBusy = store.running.value !== null;
  const submit = async (event) => {
    event.preventDefault();
    const question = text.trim();
    if (!question || isBusy) return;
    setText("");
    const turn = await store.say(question, collection || null);
    // What wasn't answered is there to be sent again.
    if (turn.state.value === "stopped" || turn.state.value === "failed") {
      setText((written) => written || question);
    }
  };
  const pressed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <label class="hidden" for="question">Your question</label>
    <textarea id="question" ref=${box} rows="2" value=${text} placeholder="Ask a question"
      onInput=${(event) => setText(event.currentTarget.value)} onKeyDown=${pressed}
      aria-describedby="keys"></textarea>
    <div class="row">
      <label>Answer from <select onChange=${(event) => choose(event.currentTarget.value)}>
        <option value="" selected=${!collection}>the model alone</option>
        ${choices.map((each) => html`<option key=${each.id} value=${each.id}
          selected=${each.id === collection}>${each.name || each.id}</option>`)}
      </select></label>
      <label>Tokens at most <input type="number" min="1" max="32768" value=${store.maxTokens.value}
        onInput=${(event) => store.limit(event.currentTarget.valueAsNumber)} /></label>
      <span class="grow dim" id="keys">Shift+Enter: new line</span>
      ${isBusy
        ? html`<button key="stop" type="button" class="danger" onClick=${store.stop}>Stop</button>`
        : html`<button key="send" type="submit" class="main">Send</button>`}
    </div>
  </form>`;
}
