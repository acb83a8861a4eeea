// The chat: conversations at the side, the open one with its answers, and where one writes.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Citations } from "../chat/citations.js";
import { Composer } from "../chat/composer.js";
import { loadBlock } from "../chat/history.js";
import { ReuseStrip } from "../chat/reuse_strip.js";
import { TalkList } from "../chat/talk_list.js";
import * as store from "../chat/talks.js";
import { html } from "../html.js";
import { markdown } from "../markdown.js";
import { Empty, Problem, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";

const AT_END = 80;

export function Chat() {
  const wanted = route.value.rest || null;
  const collection = route.value.query.get("collection") ?? "";
  const place = store.here.value;
  useEffect(() => {
    store.loadTalks().catch((error) => (store.here.value.problem.value = error.message));
  }, []);
  useEffect(() => {
    if (wanted) store.openTalk(wanted);
    else if (store.open.value) store.startAnew(collection);
    else if (collection) store.here.value.collection.value = collection;
  }, [wanted, collection]);
  return html`<div class="chat">
    <${TalkList} />
    <div class="talk" key=${place}>
      <${Title} text="Chat" />
      <${Answers} place=${place} />
      ${!place.isGone.value && html`<${Problem} text=${place.problem.value} />
        <${Composer} place=${place} />`}
    </div>
  </div>`;
}

function Answers({ place }) {
  const list = useRef(null);
  const isEmpty = place.turns.value.length === 0;
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
  }, [isEmpty, place]);
  if (isEmpty) return html`<${Nothing} place=${place} />`;
  return html`<ol class="turns" ref=${list} aria-label="Conversation">
    ${place.turns.value.map((turn) => html`<${Turn} key=${turn.key} turn=${turn} />`)}</ol>`;
}

function Nothing({ place }) {
  if (place.isGone.value) {
    return html`<${Empty}><p>This conversation isn't there: it was deleted, or never was.</p>
      <p><a href=${link("chat")}>Begin a new one</a></p></${Empty}>`;
  }
  if (!place.isLoaded.value) return place.problem.value ? null : html`<${Waiting} />`;
  if (place.id.value) {
    return html`<${Empty}><p>Nothing is kept of this conversation yet: a question whose answer was
      stopped or cut off is no part of it.</p></${Empty}>`;
  }
  return html`<${Empty}><p>Ask something. Under each answer you see how much of the prompt
      the engine had already computed, where that lay, and why the rest was not re-used.</p>
    <p>To ask about documents, choose a collection below or <a href=${link("collections")}>make
      one</a>.</p></${Empty}>`;
}

function Turn({ turn }) {
  const state = turn.state.value;
  const block = turn.block.value;
  const place = useRef(null);
  const isUnseen = !block && state === "done" && turn.response.value && !turn.note.value;
  // Of an older answer they are asked for when somebody looks at it.
  useEffect(() => {
    if (!isUnseen) return;
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      loadBlock(turn);
    });
    seen.observe(place.current);
    return () => seen.disconnect();
  }, [isUnseen]);
  return html`<li class="turn" data-state=${state} ref=${place}>
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
