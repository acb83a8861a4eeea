// The prefix flame: each row goes on from the one above it; a piece is as wide as the tokens that
// were served in it and below, and as dark as it was re-used. Arrow keys walk, Enter zooms in.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, isKnown, percent, plural } from "../format.js";
import { html } from "../html.js";
import { Table } from "../parts.js";

const ROWS = 12;
const LEAST = 0.004;
const LISTED = 24;

export function Flame({ root }) {
  const tree = useMemo(() => grown(root, null, 0, "0"), [root]);
  const [top, setTop] = useState(tree);
  const [at, setAt] = useState(tree);
  const grid = useRef(null);
  const moved = useRef(false);
  useEffect(() => {
    setTop(tree);
    setAt(tree);
  }, [tree]);
  useEffect(() => {
    if (moved.current) grid.current?.querySelector('[tabindex="0"]')?.focus();
    moved.current = false;
  }, [at, top]);
  const shown = useMemo(() => placed(top), [top]);
  const depth = Math.max(...shown.map((piece) => piece.row)) + 1;
  const go = (node) => {
    if (!node || !shown.some((piece) => piece.node === node)) return;
    moved.current = true;
    setAt(node);
  };
  const zoom = (node) => {
    moved.current = true;
    setTop(node);
    setAt(node);
  };
  const pressed = (event) => {
    const step = { ArrowDown: at.children[0], ArrowUp: at === top ? null : at.parent,
      ArrowRight: beside(at, 1), ArrowLeft: beside(at, -1) };
    if (event.key in step) go(step[event.key]);
    else if (event.key === "Escape" && top.parent) zoom(top.parent);
    else return;
    event.preventDefault();
  };
  return html`<div class="flame">
    <div class="row"><p class="grow" role="status">${told(at)}</p>
      ${top.parent && html`<button type="button" onClick=${() => zoom(top.parent)}>Zoom out</button>`}</div>
    <div class="icicle" ref=${grid} role="group" aria-label="Prefix flame; arrow keys walk through it, Enter zooms in"
        style=${{ height: `${depth * 1.9}rem` }} onKeyDown=${pressed}>
      ${shown.map(({ node, left, width, row }) => html`<button type="button" key=${node.place}
        class=${`piece ${heat(node)} ${node === at ? "at" : ""}`} tabindex=${node === at ? 0 : -1}
        aria-label=${told(node)} title=${told(node)}
        style=${{ left: `${100 * left}%`, width: `${100 * width}%`, top: `${row * 1.9}rem` }}
        onFocus=${() => setAt(node)} onMouseEnter=${() => setAt(node)}
        onClick=${() => zoom(node)}><span>${node.name}</span></button>`)}
    </div>
    <p class="legend dim"><span class="dot heat-none"></span>nothing re-used
      <span class="dot heat-some"></span>some <span class="dot heat-half"></span>half
      <span class="dot heat-most"></span>most <span class="dot heat-unknown"></span>unknown</p>
    <details><summary>The same as a table</summary>
      <${Table} caption="Pieces of prompts, as a tree" rows=${listed(tree)} rowKey=${(node) => node.place}
        columns=${COLUMNS} /></details>
  </div>`;
}

const COLUMNS = [
  { name: "piece", value: (node) => `${"· ".repeat(Math.min(node.depth, 12))}${node.name}` },
  { name: "tokens", figure: true, value: (node) => count(node.tokens) },
  { name: "requests", figure: true, value: (node) => count(node.requests) },
  { name: "served", figure: true, value: (node) => count(node.width) },
  { name: "re-used", figure: true, value: (node) => percent(node.rate) },
];

function grown(raw, parent, depth, place) {
  const node = { ...raw, parent, depth, place };
  node.children = raw.children
    .map((child, i) => grown(child, node, depth + 1, `${place}.${i}`))
    .sort((a, b) => b.width - a.width);
  const sum = (own, of) => node.children.reduce((total, child) => total + child[of], own);
  node.width = sum(raw.served_tokens, "width");
  node.known = sum(raw.known_tokens, "known");
  node.cached = sum(raw.cached_tokens ?? 0, "cached");
  // Its own re-use; that of all below it where it is no stretch of tokens itself, and at the root,
  // which has only what fills no page.
  const [cached, known] = depth && raw.served_tokens
    ? [raw.cached_tokens ?? 0, raw.known_tokens] : [node.cached, node.known];
  node.rate = known ? cached / known : null;
  node.name = raw.label || (depth ? `from token ${count(raw.start)}` : "all prompts");
  return node;
}

function placed(top) {
  const found = [];
  const place = (node, left, width, row) => {
    found.push({ node, left, width, row });
    if (row + 1 >= ROWS) return;
    let from = left;
    for (const child of node.children) {
      const share = node.width ? (width * child.width) / node.width : 0;
      if (share >= LEAST) place(child, from, share, row + 1);
      from += share;
    }
  };
  place(top, 0, 1, 0);
  return found;
}

function beside(node, step) {
  const row = node.parent?.children ?? [node];
  return row[row.indexOf(node) + step];
}

const told = (node) => `${node.name}: ${node.tokens ? `${plural(node.tokens, "token")} long, ` : ""}${
  plural(node.requests, "request")}, re-used ${percent(node.rate)}`;

function heat({ rate }) {
  if (!isKnown(rate)) return "heat-unknown";
  if (rate === 0) return "heat-none";
  return rate < 0.34 ? "heat-some" : rate < 0.67 ? "heat-half" : "heat-most";
}

function listed(tree) {
  const all = [];
  const walk = (node) => {
    all.push(node);
    node.children.forEach(walk);
  };
  walk(tree);
  const widest = new Set([...all].sort((a, b) => b.width - a.width).slice(0, LISTED));
  return all.filter((node) => widest.has(node));
}
