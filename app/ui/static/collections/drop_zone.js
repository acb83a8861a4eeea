// Where documents are dropped or chosen. A file that is dropped beside it, on the same page, counts too.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { hasFiles } from "../parts.js";

export function DropZone({ onFiles }) {
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const given = useRef(onFiles);
  given.current = onFiles;
  const take = (list) => {
    const files = Array.from(list ?? []);
    if (files.length) given.current(files);
  };
  useEffect(() => {
    const dragged = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const left = (event) => event.relatedTarget === null && setOver(false);
    const dropped = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer.files);
    };
    const heard = Object.entries({ dragover: dragged, dragleave: left, drop: dropped });
    // Before the window's own, which turns files away.
    heard.forEach(([kind, act]) => document.addEventListener(kind, act));
    return () => heard.forEach(([kind, act]) => document.removeEventListener(kind, act));
  }, []);
  return html`<div class=${`drop ${over ? "over" : ""}`}>
    <p>Drop documents here, or</p>
    <button type="button" class="main" onClick=${() => input.current.click()}>Choose files</button>
    <input ref=${input} type="file" multiple hidden aria-label="Documents" tabindex="-1"
      onChange=${(event) => { take(event.currentTarget.files); event.currentTarget.value = ""; }} />
    <p class="dim">Text, Markdown, HTML, PDF, Word, CSV, JSON and source code</p>
  </div>`;
}
