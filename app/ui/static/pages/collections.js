// All collections, and how to begin one.
import { useEffect, useState } from "preact/hooks";
import { getJson, postJson } from "../api.js";
import { bytes, count } from "../format.js";
import { html } from "../html.js";
import { Empty, Problem, Table, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";
import { Collection } from "./collection.js";

export function Collections() {
  const id = route.value.rest;
  return id ? html`<${Collection} key=${id} id=${id} />` : html`<${List} />`;
}

function List() {
  const [stores, setStores] = useState(null);
  const [more, setMore] = useState(false);
  const [problem, setProblem] = useState(null);
  const load = async (after) => {
    try {
      const page = await getJson(`v1/vector_stores?limit=100${after ? `&after=${after}` : ""}`);
      setStores((known) => (after ? [...known, ...page.data] : page.data));
      setMore(page.has_more);
    } catch (error) {
      setProblem(error.message);
    }
  };
  useEffect(() => void load(), []);
  return html`<${Title} text="Collections" />
    <p class="lead">A collection is a set of documents that is asked together.</p>
    <${Begin} />
    <${Problem} text=${problem} />
    ${stores === null && !problem && html`<${Waiting} />`}
    ${stores?.length === 0 && html`<${Empty}><p>There is no collection yet. Name one above, then drop
      documents into it.</p></${Empty}>`}
    ${stores?.length > 0 && html`<${Table} caption="Collections" rows=${stores} rowKey=${(s) => s.id}
      columns=${COLUMNS} />`}
    ${more && html`<button type="button" class="quiet" onClick=${() => load(stores.at(-1).id)}>More</button>`}`;
}

const COLUMNS = [
  { name: "collection", value: (s) => html`<a href=${link("collections", s.id)}>${s.name || s.id}</a>` },
  { name: "files", figure: true, value: (s) => count(s.file_counts.completed) },
  { name: "failed", figure: true, value: (s) => count(s.file_counts.failed) },
  { name: "passages", figure: true, value: (s) => count(s.foreword?.chunks) },
  { name: "text and vectors", figure: true, value: (s) => bytes(s.usage_bytes) },
  { name: "state", value: (s) => s.status.replace("_", " ") },
];

function Begin() {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState(null);
  const begin = async (event) => {
    event.preventDefault();
    if (!name.trim()) {
      setProblem("Give the collection a name.");
      return;
    }
    try {
      const made = await postJson("v1/vector_stores", { name: name.trim() });
      location.hash = link("collections", made.id);
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<form class="row begin" onSubmit=${begin}>
    <label>New collection <input type="text" value=${name} maxlength="256" autocomplete="off"
      onInput=${(event) => setName(event.currentTarget.value)} /></label>
    <button type="submit" class="main">Create</button>
    <${Problem} text=${problem} />
  </form>`;
}
