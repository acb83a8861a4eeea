// A group's prompt tokens: re-used, lost (by verdict), new; what isn't known is a part of its own.
import { Bar } from "../chat/reuse_strip.js";
import { count, isKnown, percent } from "../format.js";
import { html } from "../html.js";

const TIERS = { gpu: "GPU", ram: "RAM", ssd: "SSD", redis: "Redis" };

export function Waterfall({ group }) {
  const parts = partsOf(group);
  const total = parts.reduce((sum, part) => sum + (part.tokens ?? 0), 0);
  return html`<${Bar} parts=${parts} total=${total} />
    <dl class="figures">${parts.map((part) => html`<div key=${part.id}>
      <dt><span class=${`dot ${part.id}`}></span>${part.name}</dt>
      <dd data-part=${part.id}>${count(part.tokens)}${total && isKnown(part.tokens)
        ? html` <span class="dim">${percent(part.tokens / total)}</span>` : null}</dd></div>`)}</dl>`;
}

// They add up to all prompt tokens; a tier of which nothing was told has no figure.
function partsOf({ prompt_shares: shares, cached_by_tier: tiers, waterfall }) {
  const parts = Object.entries(TIERS).map(([id, name]) =>
    ({ id, name, tokens: isKnown(tiers[id].tokens) ? shares[id] : null }));
  const lost = Object.entries(shares.lost).map(([verdict, tokens]) =>
    ({ id: `lost lost-${verdict}`, name: `lost: ${verdict}`, tokens }));
  const others = [
    { id: "storage", name: "RAM, SSD or Redis", tokens: shares.tier },
    { id: "somewhere", name: "re-used, tier not known", tokens: shares.reused_somewhere },
    ...lost,
  ];
  return [
    ...parts,
    ...others.filter((part) => part.tokens),
    { id: "new", name: "new", tokens: waterfall ? shares.new : null },
    ...[
      { id: "unexplained", name: "not re-used, best possible not known", tokens: shares.unexplained },
      { id: "unknown", name: "re-use not known", tokens: shares.unknown },
    ].filter((part) => part.tokens),
  ];
}
