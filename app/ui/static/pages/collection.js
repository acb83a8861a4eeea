// One collection: dropping documents into it, how far each is, what failed and why.
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson, remove } from "../api.js";
import { takeIn } from "../collections/uploads.js";
import { bytes, count, plural } from "../format.js";
import { html } from "../html.js";
import { Cards, Confirm, Problem, Table, Title, Waiting } from "../parts.js";
import { announce, link } from "../state.js";

const POLL_MS = 700;

export function Collection({ id }) {
  const [store, setStore] = useState(null);
  const [files, setFiles] = useState([]);
  const [hasMore, setMore] = useState(false);
  const [problem, setProblem] = useState(null);
  const [uploads, setUploads] = useState([]);
  const [asked, setAsked] = useState(0);
  const reload = () => setAsked((n) => n + 1);
  const names = useRef(new Map());

  // As long as something is taken in, it is looked at again.
  useEffect(() => {
    let timer = null;
    let left = false;
    const look = async () => {
      try {
        const [found, listed] = await Promise.all([
          getJson(`v1/vector_stores/${id}`), getJson(`v1/vector_stores/${id}/files?limit=100`),
        ]);
        await learnNames(names.current, listed.data);
        if (left) return;
        setStore(found);
        setFiles(listed.data);
        setMore(listed.has_more);
        if (found.file_counts.in_progress) timer = setTimeout(look, POLL_MS);
      } catch (error) {
        if (!left) setProblem(error.message);
      }
    };
    look();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [id, asked]);

  const add = async (chosen) => {
    announce(`Taking in ${plural(chosen.length, "file")}.`);
    const failed = await takeIn(id, chosen, { change: setUploads, onAdded: reload });
    announce(failed ? `${plural(failed, "file")} failed.` : "All files are uploaded.");
    reload();
  };
  if (problem && !store) return html`<${Title} text="Collection" /><${Problem} text=${problem} />`;
  if (!store) return html`<${Title} text="Collection" /><${Waiting} />`;
  return html`<${Title} text=${store.name || store.id}>
      <a class="button main" href=${link("chat", "", { collection: id })}>Ask this collection</a>
    </${Title}>
    <${Cards} cards=${cardsOf(store)} />
    <${DropZone} onFiles=${add} />
    <${Uploads} uploads=${uploads} />
    <${Problem} text=${problem} />
    ${files.length > 0 && html`<${Files} files=${files} names=${names.current} store=${store}
      onProblem=${setProblem} onChange=${reload} />`}
    ${hasMore && html`<p class="note">The latest 100 files are shown, of ${count(store.file_counts.total)}.</p>`}
    <${Delete} store=${store} onProblem=${setProblem} />`;
}

async function learnNames(names, files) {
  const unknown = files.filter((file) => !names.has(file.id));
  await Promise.all(unknown.map(async (file) => {
    const record = await getJson(`v1/files/${file.id}`).catch(() => null);
    names.set(file.id, record?.filename ?? file.id);
  }));
}

const cardsOf = (store) => [
  { name: "files", value: count(store.file_counts.completed),
    note: store.file_counts.failed ? `${plural(store.file_counts.failed, "more", "more")} failed` : null },
  { name: "passages", value: count(store.foreword?.chunks) },
  { name: "tokens", value: count(store.foreword?.tokens) },
  { name: "answered by", value: store.foreword?.mode?.toUpperCase() ?? "RAG or CAG, by cost" },
];

function DropZone({ onFiles }) {
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const take = (list) => {
    const files = Array.from(list ?? []);
    if (files.length) onFiles(files);
  };
  return html`<div class=${`drop ${over ? "over" : ""}`}
      onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)}
      onDrop=${(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer.files); }}>
    <p>Drop documents here, or</p>
    <button type="button" class="main" onClick=${() => input.current.click()}>Choose files</button>
    <input ref=${input} type="file" multiple hidden aria-label="Documents" tabindex="-1"
      onChange=${(event) => { take(event.currentTarget.files); event.currentTarget.value = ""; }} />
    <p class="dim">Text, Markdown, HTML, PDF, Word and source code</p>
  </div>`;
}

function Uploads({ uploads }) {
  // What is uploaded stands in the table below.
  const shown = uploads.filter((upload) => upload.state !== "added");
  if (!shown.length) return null;
  return html`<ul class="uploads" aria-label="Uploads">${shown.map((upload) => html`
    <li key=${upload.key} data-state=${upload.state}>
      <span class="name">${upload.name}</span>
      ${upload.state === "uploading" && html`<progress max="1" value=${upload.progress}
        aria-label=${`Upload of ${upload.name}`}></progress>`}
      ${upload.state === "failed" ? html`<span class="problem" role="alert">${upload.problem}</span>`
        : html`<span class="dim">${WORDS[upload.state]}</span>`}
    </li>`)}</ul>`;
}

const WORDS = { waiting: "waits", uploading: "uploading", added: "uploaded" };

function Files({ files, names, store, onProblem, onChange }) {
  const takeOut = (file) => remove(`v1/vector_stores/${store.id}/files/${file.id}`)
    .then(onChange).catch((error) => onProblem(error.message));
  const columns = [
    { name: "file", value: (file) => html`<span class="name">${names.get(file.id)}</span>` },
    { name: "state", words: true, value: stateOf },
    { name: "passages", figure: true, value: (file) => (isRead(file) ? count(file.foreword?.chunks) : "–") },
    { name: "size", figure: true, value: (file) => (isRead(file) ? bytes(file.usage_bytes) : "–") },
    { name: "", value: (file) => html`<button type="button" class="quiet"
        aria-label=${`Take out ${names.get(file.id)}`} onClick=${() => takeOut(file)}>Take out</button>` },
  ];
  return html`<${Table} caption="Files" columns=${columns} rows=${files} rowKey=${(file) => file.id} />`;
}

const isRead = (file) => file.status === "completed";

function stateOf(file) {
  if (file.status === "failed") {
    return html`<span class="problem">${file.last_error?.message ?? "failed"}</span>`;
  }
  const progress = file.foreword?.progress;
  const share = progress?.total_chunks ? progress.done_chunks / progress.total_chunks : null;
  if (file.status === "in_progress") {
    return share === null ? `${progress?.stage ?? "waiting"}…` : html`<progress max="1" value=${share}
      aria-label="How far it is read"></progress>`;
  }
  return file.status === "completed" ? "ready" : file.status.replace("_", " ");
}

function Delete({ store, onProblem }) {
  const [going, setGoing] = useState(false);
  const forget = () => remove(`v1/vector_stores/${store.id}`)
    .then(() => (location.hash = link("collections")))
    .catch((error) => onProblem(error.message));
  return html`<p class="end"><button type="button" class="quiet danger"
      onClick=${() => setGoing(true)}>Delete this collection</button></p>
    ${going && html`<${Confirm} title="Delete this collection?" action="Delete"
      text=${`“${store.name || store.id}” goes, with the KV of its prompts. Its files stay.`}
      onDone=${forget} onClose=${() => setGoing(false)} />`}`;
}
