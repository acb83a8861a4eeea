// The sources of an answer; each opens its passage, marked in the document that it stands in.
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { html } from "../html.js";
import { percent } from "../format.js";
import { Dialog, Problem } from "../parts.js";

const AROUND = 1500;

export function Citations({ found, collection }) {
  const [opened, setOpened] = useState(null);
  if (!found?.length) return null;
  return html`<section class="sources" aria-label="Sources of this answer">
    <h3>Sources</h3>
    <ol>${found.map((citation) => html`<li key=${citation.chunk_id}>
      <button type="button" class="source" onClick=${() => setOpened(citation)}>
        <span class="name">${citation.document}</span>
        ${citation.page ? html`<span class="dim">page ${citation.page}</span>` : null}
        ${citation.heading ? html`<span class="dim">${citation.heading}</span>` : null}
        <span class="snippet">${citation.text}</span>
      </button></li>`)}</ol>
    ${opened && html`<${Passage} citation=${opened} collection=${collection}
      onClose=${() => setOpened(null)} />`}
  </section>`;
}

function Passage({ citation, collection, onClose }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState(null);
  const marked = useRef(null);
  useEffect(() => {
    if (!collection) return;
    getJson(`v1/vector_stores/${collection}/files/${citation.file_id}/content`)
      .then((page) => setText(page.data.map((part) => part.text).join("")))
      .catch((error) => setProblem(error.message));
  }, [citation, collection]);
  useEffect(() => marked.current?.scrollIntoView({ block: "center" }), [text]);
  const found = citation.found_by === "named"
    ? "The answer names this document."
    : `The answer shares ${percent(citation.share)} of its telling words with this passage.`;
  return html`<${Dialog} title=${citation.document} onClose=${onClose}>
    <p class="dim">${citation.page ? `Page ${citation.page}. ` : ""}${found}</p>
    <${Problem} text=${problem && `The document's text can't be shown: ${problem}`} />
    ${text === null ? html`<blockquote class="passage">${citation.text}</blockquote>`
      : html`<div class="passage document" tabindex="0" role="region" aria-label="The document">
          <${InPlace} text=${text} start=${citation.start} end=${citation.end} mark=${marked} />
        </div>`}
  </${Dialog}>`;
}

// Offsets count characters as Python does; a character beyond the first plane is two of JavaScript's.
function InPlace({ text, start, end, mark }) {
  const characters = Array.from(text);
  const from = Math.max(0, start - AROUND);
  const to = Math.min(characters.length, end + AROUND);
  const cut = (a, b) => characters.slice(a, b).join("");
  return html`${from > 0 && "… "}${cut(from, start)}<mark ref=${mark}>${cut(start, end)}</mark>${cut(end, to)}${to < characters.length && " …"}`;
}
