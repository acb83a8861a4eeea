// One collection: dropping documents into it, how far each is, what failed and why.
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson, idPath, remove } from "../api.js";
import { DropZone } from "../collections/drop_zone.js";
import { takeIn } from "../collections/uploads.js";
import { bytes, count, plural } from "../format.js";
import { html } from "../html.js";
import { Cards, Confirm, Dialog, Problem, Table, Title, Waiting } from "../parts.js";
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
  // Files that were dropped, until it is said what becomes of those of the same name.
  const [doubtful, setDoubtful] = useState(null);
  const records = useRef(new Map());

  // As long as something is taken in, it is looked at again.
  useEffect(() => {
    let timer = null;
    let left = false;
    const look = async () => {
      try {
        const [found, listed] = await Promise.all([
          getJson(`v1/vector_stores/${idPath(id)}`),
          getJson(`v1/vector_stores/${idPath(id)}/files?limit=100`),
        ]);
        await learn(records.current, listed.data);
        if (left) return;
        setStore(found);
        setFiles(listed.data);
        setMore(listed.has_more);
        // The two are as they were at moments of their own: either may still be behind.
        const isBehind = listed.data.some((file) => file.status === "in_progress");
        if (found.file_counts.in_progress || isBehind) timer = setTimeout(look, POLL_MS);
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

  const held = new Set(files.filter((file) => file.status !== "failed")
    .map((file) => nameOf(records.current, file)));
  const isHeld = (file) => held.has(file.name);
  const offer = (chosen) => (chosen.some(isHeld) ? setDoubtful(chosen) : add(chosen, () => false));
  const add = async (chosen, isReplacing) => {
    announce(`Taking in ${plural(chosen.length, "file")}.`);
    const failed = await takeIn(id, chosen, { change: setUploads, onAdded: reload, isReplacing });
    announce(failed ? `${plural(failed, "file")} failed.` : "All files are uploaded.");
    reload();
  };
  if (problem && !store) return html`<${Title} text="Collection" /><${Problem} text=${problem} />`;
  if (!store) return html`<${Title} text="Collection" /><${Waiting} />`;
  return html`<${Title} text=${store.name || store.id}>
      <a class="button main" href=${link("chat", "", { collection: id })}>Ask this collection</a>
    </${Title}>
    <${Cards} cards=${cardsOf(store)} />
    <${DropZone} onFiles=${offer} />
    ${doubtful && html`<${Doubtful} names=${doubtful.filter(isHeld).map((file) => file.name)}
      onReplace=${() => add(doubtful, isHeld)} onKeep=${() => add(doubtful, () => false)}
      onClose=${() => setDoubtful(null)} />`}
    <${Uploads} uploads=${uploads} />
    <${Problem} text=${problem} />
    ${files.length > 0 && html`<${Files} files=${files} records=${records.current} store=${store}
      onProblem=${setProblem} onChange=${reload} />`}
    ${hasMore && html`<p class="note">The latest 100 files are shown, of ${count(store.file_counts.total)}.</p>`}
    <${Delete} store=${store} onProblem=${setProblem} />`;
}

async function learn(records, files) {
  const unknown = files.filter((file) => !records.has(file.id));
  await Promise.all(unknown.map(async (file) => {
    records.set(file.id, await getJson(`v1/files/${idPath(file.id)}`).catch(() => null));
  }));
}

const nameOf = (records, file) => records.get(file.id)?.filename ?? file.id;

function Doubtful({ names, onReplace, onKeep, onClose }) {
  const title = names.length === 1 ? `Replace ${names[0]}?` : `Replace ${plural(names.length, "file")}?`;
  const then = (close, act) => () => {
    close();
    act();
  };
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${(close) => html`
    <button type="button" class="main" data-first onClick=${then(close, onReplace)}>Replace</button>
    <button type="button" onClick=${then(close, onKeep)}>Keep both</button>
    <button type="button" class="quiet" onClick=${close}>Cancel</button>`}>
    <p>${names.length === 1 ? "A file of this name is" : "Files of these names are"} in the collection
      already: ${names.join(", ")}. The new version can take the place of the old one, or stand beside
      it: then answers may come from either.</p></${Dialog}>`;
}

const cardsOf = (store) => [
  { name: "files", value: count(store.file_counts.completed),
    note: store.file_counts.failed ? `${plural(store.file_counts.failed, "more", "more")} failed` : null },
  { name: "passages", value: count(store.foreword?.chunks) },
  { name: "tokens", value: count(store.foreword?.tokens) },
  { name: "answered by", value: store.foreword?.mode?.toUpperCase() ?? "RAG or CAG, by cost" },
];

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

const WORDS = { waiting: "waits", uploading: "uploading", reading: "being read", added: "uploaded" };

function Files({ files, records, store, onProblem, onChange }) {
  const [going, setGoing] = useState(null);
  const takeOut = (file) => remove(`v1/vector_stores/${idPath(store.id)}/files/${idPath(file.id)}`)
    .then(onChange).catch((error) => onProblem(error.message));
  const columns = [
    { name: "file", value: (file) => html`<span class="name">${nameOf(records, file)}</span>` },
    { name: "state", words: true, value: stateOf },
    { name: "passages", figure: true, value: (file) => (isRead(file) ? count(file.foreword?.chunks) : "–") },
    { name: "size", figure: true, value: (file) => bytes(records.get(file.id)?.bytes) },
    { name: "", value: (file) => html`<button type="button" class="quiet"
        aria-label=${`Take out ${nameOf(records, file)}`} onClick=${() => setGoing(file)}>Take out</button>` },
  ];
  return html`<${Table} caption="Files" columns=${columns} rows=${files} rowKey=${(file) => file.id} />
    ${going && html`<${Confirm} title=${`Take out ${nameOf(records, going)}?`} action="Take out"
      text=${`“${store.name || store.id}” then answers without it, and its passages are read anew if you
        add it again. The uploaded file itself stays.`}
      onDone=${() => takeOut(going)} onClose=${() => setGoing(null)} />`}`;
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
  const forget = () => remove(`v1/vector_stores/${idPath(store.id)}`)
    .then(() => (location.hash = link("collections")))
    .catch((error) => onProblem(error.message));
  return html`<p class="end"><button type="button" class="quiet danger"
      onClick=${() => setGoing(true)}>Delete this collection</button></p>
    ${going && html`<${Confirm} title="Delete this collection?" action="Delete"
      text=${`“${store.name || store.id}” goes, with the KV of its prompts. Its files stay.`}
      onDone=${forget} onClose=${() => setGoing(false)} />`}`;
}
