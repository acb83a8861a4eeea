// Small parts that several pages use.
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";

let isLoaded = false;

// Where a screen reader and the keyboard go on when another page is shown. The first one that is
// shown is begun at its top, like any document.
export function Title({ text, children }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${text} · Foreword`;
    if (isLoaded) heading.current.focus({ preventScroll: true });
    isLoaded = true;
    // On a phone the page's own link may lie outside the row of them.
    // (Scrolled by hand: scrollIntoView would move where the first Tab leads.)
    const current = document.querySelector(".top li [aria-current]");
    if (current) current.closest("ul").scrollLeft = current.offsetLeft - 16;
  }, [text]);
  return html`<div class="title"><h1 ref=${heading} tabindex="-1">${text}</h1>${children}</div>`;
}

export function Problem({ text }) {
  return text ? html`<p class="problem" role="alert">${text}</p>` : null;
}

export function Empty({ children }) {
  return html`<div class="empty">${children}</div>`;
}

export function Waiting({ what = "Loading" }) {
  return html`<p class="waiting" role="status">${what}…</p>`;
}

export function Dialog({ title, children, onClose, actions }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
    // What Enter does at once, where a dialog says it.
    dialog.current.querySelector("[data-first]")?.focus();
  }, []);
  const outside = (event) => event.target === dialog.current && dialog.current.close();
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose} onClick=${outside}>
    <div class="sheet">
      <header><h2>${title}</h2>
        <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Close</button>
      </header>
      ${children}
      ${actions && html`<footer>${actions(() => dialog.current.close())}</footer>`}
    </div>
  </dialog>`;
}

export function Confirm({ title, text, action, onDone, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${(close) => html`
    <button type="button" class="danger" onClick=${() => { close(); onDone(); }}>${action}</button>
    <button type="button" onClick=${close}>Keep it</button>`}><p>${text}</p></${Dialog}>`;
}

// Columns: name, value(row), and whether it holds figures or sentences. The first one heads its row. On
// a phone each row is a block, in which every cell bears its column's name; roles keep it a table.
export function Table({ caption, columns, rows, rowKey }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table role="table"><caption>${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map((column) => html`<th key=${column.name} scope="col"
        role="columnheader" class=${kindOf(column)}>${column.name}</th>`)}</tr></thead>
      <tbody role="rowgroup">${rows.map((row) => html`<tr key=${rowKey(row)} role="row">
        ${columns.map((column, i) => i === 0
          ? html`<th key=${column.name} scope="row" role="rowheader">${column.value(row)}</th>`
          : html`<td key=${column.name} role="cell" data-column=${column.name}
              class=${kindOf(column)}>${column.value(row)}</td>`)}
      </tr>`)}</tbody>
    </table></div>`;
}

const kindOf = (column) => (column.figure ? "figure" : column.words ? "words" : "");

// Whether something dragged holds files: text may be dropped anywhere, as ever.
export const hasFiles = (event) => Boolean(event.dataTransfer?.types?.includes("Files"));

export function Cards({ cards }) {
  return html`<dl class="cards">${cards.map((card) => html`<div key=${card.name}>
    <dt>${card.name}</dt><dd>${card.value}</dd>
    ${card.note && html`<dd class="dim">${card.note}</dd>`}</div>`)}</dl>`;
}
