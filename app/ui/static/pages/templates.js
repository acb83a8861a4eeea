// The templates: what each segment says, how often it changes, and what lint finds in it.
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { count, isKnown, plural, UNKNOWN } from "../format.js";
import { html } from "../html.js";
import { markdown } from "../markdown.js";
import { Cards, Dialog, Problem, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";

const OFTEN = {
  static: "never changes",
  tenant: "changes with the tenant",
  collection: "changes with the collection",
  session: "changes with the conversation",
  turn: "changes with each turn",
};

export function Templates() {
  const [known, setKnown] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    getJson("foreword/templates").then((page) => setKnown(page.data))
      .catch((error) => setProblem(error.message));
  }, []);
  const chosen = route.value.rest || (known?.length ? `${known[0].name}@${known[0].version}` : "");
  return html`<${Title} text="Templates" />
    <p class="lead">A prompt is re-used up to its first token that is new. So what never changes comes
      first, and lint says where something stands in the way.</p>
    <${Problem} text=${problem} />
    ${!known && !problem && html`<${Waiting} />`}
    ${known && html`<nav class="tabs" aria-label="Templates"><ul>${known.map((each) => {
      const reference = `${each.name}@${each.version}`;
      return html`<li key=${reference}><a href=${link("templates", reference)}
        aria-current=${reference === chosen ? "page" : null}>${reference}</a></li>`;
    })}</ul></nav>`}
    ${chosen && html`<${Template} key=${chosen} reference=${chosen} />`}`;
}

function Template({ reference }) {
  const [template, setTemplate] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    getJson(`foreword/templates/${encodeURIComponent(reference)}`).then(setTemplate)
      .catch((error) => setProblem(error.message));
  }, [reference]);
  if (problem) return html`<${Problem} text=${problem} />`;
  if (!template) return html`<${Waiting} />`;
  const findings = template.lint?.findings ?? [];
  const ids = new Set(template.segments.map((segment) => segment.id));
  return html`<${Cards} cards=${cardsOf(template)} />
    ${template.changed_on_disk && html`<p class="note">The file was changed since the gateway started:
      the findings are those of the file, the segments those that are served.</p>`}
    ${!template.lint && html`<p class="note">The template's file can't be read any more, so it wasn't
      checked.</p>`}
    ${template.lint?.skipped_rules.length > 0 && html`<p class="note">Without the model's tokenizer
      ${template.lint.skipped_rules.join(", ")} could not be checked.</p>`}
    <${Findings} findings=${findings.filter((f) => !ids.has(f.segment))} rules=${template.lint?.rules} />
    <ol class="segments">${template.segments.map((segment) => html`
      <${Segment} key=${segment.id} segment=${segment} rules=${template.lint?.rules}
        findings=${findings.filter((finding) => finding.segment === segment.id)} />`)}</ol>`;
}

function cardsOf(template) {
  const findings = template.lint?.findings;
  return [
    { name: "lint", value: findings ? plural(findings.length, "finding") : UNKNOWN },
    scaffoldCard(template),
    { name: "fingerprint", value: template.fingerprint?.slice(0, 12) ?? "depends on values" },
  ];
}

function scaffoldCard({ scaffold_tokens: tokens, segments }) {
  if (segments[0]?.volatility !== "static") {
    return { name: "scaffold", value: "none", note: "it begins with what changes" };
  }
  const value = isKnown(tokens) ? `${count(tokens)} tokens` : UNKNOWN;
  return { name: "scaffold", value, note: "shared by all its prompts" };
}

function Segment({ segment, findings, rules }) {
  return html`<li class=${`segment ${segment.volatility}`}>
    <header><h2>${segment.id}</h2>
      <span class="tag">${segment.volatility}</span>
      <span class="dim">${OFTEN[segment.volatility] ?? ""}${segment.role ? ` · ${segment.role}` : ""}
        ${isKnown(segment.tokens) ? ` · ${plural(segment.tokens, "token")}` : " · tokens depend on values"}</span>
    </header>
    ${segment.text && html`<pre tabindex="0" aria-label=${`Text of ${segment.id}`}>${segment.text}</pre>`}
    ${segment.messages && html`<p>The messages of <code>${segment.messages}</code>.</p>`}
    <${Findings} findings=${findings} rules=${rules} />
  </li>`;
}

function Findings({ findings, rules }) {
  const [opened, setOpened] = useState(null);
  if (!findings.length) return null;
  return html`<ul class="findings">${findings.map((finding, i) => html`
    <li key=${i} class=${`finding-${finding.severity}`}>
      <span class="tag">${finding.severity}</span>
      <button type="button" class="quiet" onClick=${() => setOpened(finding.code)}>${finding.code} ${finding.name}</button>
      <span class="dim">line ${finding.line}</span>
      <p>${finding.message}</p>
      <${Cost} cost=${finding.cost} />
      ${finding.fix && html`<p class="dim">Fix: ${finding.fix}</p>`}
    </li>`)}</ul>
    ${opened && html`<${Dialog} title=${`${opened} ${rules[opened].title}`} onClose=${() => setOpened(null)}>
      <${RuleText} text=${rules[opened].text} /></${Dialog}>`}`;
}

// Its first line is the dialog's title already.
function RuleText({ text }) {
  const place = useRef(null);
  useEffect(() => {
    place.current.replaceChildren(markdown(text.replace(/^# .*\n/, ""), { breaks: false }));
  }, [text]);
  return html`<div class="markdown" ref=${place}></div>`;
}

function Cost({ cost }) {
  if (!cost || !isKnown(cost.token)) return null;
  return html`<p class="dim">Re-use ends at token ${count(cost.token)} of ${count(cost.of)}; lost in GPU
    memory: ${count(cost.page_tokens)}, in the tiers: ${count(cost.chunk_tokens)}.</p>`;
}
