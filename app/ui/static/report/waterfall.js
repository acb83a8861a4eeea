// A group's prompt tokens: re-used, lost (by verdict), new; what isn't known is a part of its own.
import { Bar } from "../chat/reuse_strip.js";
import { count, isKnown, percent } from "../format.js";
import { html } from "../html.js";

const TIERS = ["gpu", "ram", "ssd", "redis"];
const NAMES = { gpu: "GPU", ram: "RAM", ssd: "SSD", redis: "Redis", storage: "RAM, SSD or Redis" };

export function Waterfall({ group }) {
  const parts = partsOf(group);
  const total = group.prompt_tokens.tokens;
  return html`<${Bar} parts=${parts} total=${total} />
    <dl class="figures">${parts.map((part) => html`<div key=${part.id}>
      <dt><span class=${`dot ${part.id}`}></span>${part.name}</dt>
      <dd data-part=${part.id}>${count(part.tokens)}${total && isKnown(part.tokens)
        ? html` <span class="dim">${percent(part.tokens / total)}</span>` : null}</dd></div>`)}</dl>`;
}

function partsOf(group) {
  const parts = tierParts(group.cached_by_tier);
  const fall = group.waterfall;
  for (const [verdict, tokens] of Object.entries(fall?.lost_tokens ?? {})) {
    parts.push({ id: `lost lost-${verdict}`, name: `lost: ${verdict}`, tokens });
  }
  parts.push({ id: "new", name: "new", tokens: fall?.new_tokens ?? null });
  const total = group.prompt_tokens.tokens;
  if (fall && isKnown(total) && fall.prompt_tokens < total) {
    parts.push({ id: "unknown", name: "not accounted for", tokens: total - fall.prompt_tokens });
  }
  return parts;
}

function tierParts(tiers) {
  const split = TIERS.slice(1).some((tier) => isKnown(tiers[tier].tokens) && tiers[tier].tokens > 0);
  const shown = split || !tiers.storage.tokens ? TIERS : ["gpu", "storage"];
  return shown.map((tier) => ({ id: tier, name: NAMES[tier], tokens: tiers[tier].tokens }));
}
