// Under each answer: where the prompt's tokens came from, the time to the first token, the verdict.
import { html } from "../html.js";
import { UNKNOWN, count, isKnown, percent, seconds } from "../format.js";
import { link } from "../state.js";

const VERDICTS = {
  hit: "all that could be re-used was",
  cold: "nobody had sent this opening before",
  changed: "an early part of the prompt changed",
  evicted: "it had to make room for others",
  moved: "another replica holds it",
  isolated: "it is held for another collection, isolated conversation or tenant, and those share nothing",
  rounding: "the rest is less than a page or chunk",
  engine: "a rule of the engine",
  unknown: "the evidence is missing",
};

// Each part: what it is called, and its tokens; null is unknown.
export function partsOf(block) {
  const tiers = block.cached_by_tier ?? {};
  const parts = [{ id: "gpu", name: "GPU", tokens: tiers.gpu ?? null }];
  const split = ["ram", "ssd", "redis"].map((id) => tiers[id] ?? null);
  if (split.some(isKnown) || !isKnown(tiers.storage)) {
    ["RAM", "SSD", "Redis"].forEach((name, i) =>
      parts.push({ id: name.toLowerCase(), name, tokens: split[i] }));
  } else {
    parts.push({ id: "storage", name: "RAM, SSD or Redis", tokens: tiers.storage });
  }
  const told = parts.reduce((sum, part) => sum + (part.tokens ?? 0), 0);
  if (isKnown(block.cached_tokens) && told < block.cached_tokens) {
    parts.push({ id: "somewhere", name: "re-used, tier not known", tokens: block.cached_tokens - told });
  }
  const computed = isKnown(block.cached_tokens) && isKnown(block.prompt_tokens)
    ? block.prompt_tokens - block.cached_tokens : null;
  parts.push({ id: "computed", name: "computed", tokens: computed });
  return parts;
}

export function Bar({ parts, total }) {
  const known = parts.filter((part) => isKnown(part.tokens) && part.tokens > 0);
  const told = known.reduce((sum, part) => sum + part.tokens, 0);
  const whole = Math.max(total ?? 0, told, 1);
  return html`<div class="bar" aria-hidden="true">
    ${known.map((part) => html`<span key=${part.id} class=${`fill ${part.id}`}
      style=${{ width: `${(100 * part.tokens) / whole}%` }}></span>`)}
    ${told < whole && html`<span class="fill unknown" style=${{ width: `${100 - (100 * told) / whole}%` }}></span>`}
  </div>`;
}

export function ReuseStrip({ block, isExplained = false }) {
  const parts = partsOf(block);
  const rate = isKnown(block.cached_tokens) && block.prompt_tokens
    ? block.cached_tokens / block.prompt_tokens : null;
  return html`<section class="reuse" aria-label="What was re-used for this answer">
    <${Bar} parts=${parts} total=${block.prompt_tokens} />
    <dl class="figures">
      ${parts.map((part) => html`<div key=${part.id} class=${isKnown(part.tokens) ? "" : "dim"}>
        <dt><span class=${`dot ${part.id}`}></span>${part.name}</dt>
        <dd data-part=${part.id}>${count(part.tokens)}</dd></div>`)}
      <div><dt>re-used</dt><dd data-part="rate">${percent(rate)}</dd></div>
      <div class=${isKnown(block.ttft_s) ? "" : "dim"}><dt>first token</dt>
        <dd data-part="ttft">${seconds(block.ttft_s)}</dd></div>
      <div><dt>verdict</dt><dd data-part="verdict"
        title=${VERDICTS[block.verdict] ?? ""}>${block.verdict ?? UNKNOWN}</dd></div>
    </dl>
    <p class="why">${reason(block)} ${!isExplained && html`<a
      href=${link("explain", block.request_id)}>Explain</a>`}</p>
  </section>`;
}

function reason(block) {
  const said = VERDICTS[block.verdict];
  const mode = block.mode ? ` Answered by ${block.mode.toUpperCase()}.` : "";
  return said ? `${said[0].toUpperCase()}${said.slice(1)}.${mode}` : mode.trim();
}
