// What the engine's memory holds, and what RAG and CAG would cost for each collection.
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api.js";
import { bytes, count, isKnown, number, percent, plural, seconds, UNKNOWN } from "../format.js";
import { html } from "../html.js";
import { Cards, Empty, Problem, Table, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";

export function Plan() {
  const chosen = route.value.query.get("collection") ?? "";
  const [plan, setPlan] = useState(null);
  const [stores, setStores] = useState([]);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    getJson("v1/vector_stores?limit=100").then((page) => setStores(page.data)).catch(() => {});
  }, []);
  useEffect(() => {
    setPlan(null);
    setProblem(null);
    const asked = chosen ? `?collection=${encodeURIComponent(chosen)}` : "";
    getJson(`foreword/plan${asked}`).then(setPlan).catch((error) => setProblem(error.message));
  }, [chosen]);
  const choose = (event) => {
    const collection = event.currentTarget.value;
    location.hash = link("plan", "", collection ? { collection } : {});
  };
  return html`<${Title} text="RAG or CAG" />
    <p class="lead">RAG puts the passages that a search finds into the prompt; CAG puts the whole
      collection at its beginning and keeps its KV. Which is cheaper is worked out from this engine's
      own figures.</p>
    <div class="row"><label>Collection <select onChange=${choose}>
      <option value="" selected=${!chosen}>all that were asked lately</option>
      ${stores.map((each) => html`<option key=${each.id} value=${each.id}
        selected=${each.id === chosen}>${each.name || each.id}</option>`)}
    </select></label></div>
    <${Problem} text=${problem} />
    ${!plan && !problem && html`<${Waiting} />`}
    ${plan && html`<${Modes} rows=${plan.modes} />
      <h2>The engine</h2><${Cards} cards=${engineCards(plan)} />
      ${plan.plan_problem && html`<p class="note">No plan of the memory can be made: ${plan.plan_problem}</p>`}
      <${Corpus} corpus=${plan.plan?.corpus} />
      <${Tiers} tiers=${plan.tiers} />
      <${Derivation} steps=${plan.plan?.derivation} />`}`;
}

function Modes({ rows }) {
  if (!rows.length) {
    return html`<${Empty}><p>No collection was asked since the gateway started. Choose one above to
      see what each way would cost.</p></${Empty}>`;
  }
  return rows.map((row) => html`<section class="mode" key=${row.collection_id}>
    <h2>${row.collection}: ${row.mode ? row.mode.toUpperCase() : UNKNOWN}${row.pinned ? " (pinned)" : ""}</h2>
    <p>${decided(row)}</p>
    ${byCost(row) && html`<p>${byCost(row)}</p>`}
    <p class="dim">A question of ${plural(row.question_tokens, "token")} would cost, as things are now:</p>
    <${Table} caption=${`Costs of a question to ${row.collection}`} rowKey=${([mode]) => mode}
      rows=${Object.entries(row.costs ?? {})} columns=${costColumns(row.mode)} />
  </section>`);
}

// What was decided, when the figures were other ones: of the last question, as long as it was.
function decided({ last, reason, pinned }) {
  if (!last) return pinned ? "The collection is pinned to this way." : "Not asked since the gateway started.";
  const long = last.question_tokens ? ` (of ${plural(last.question_tokens, "token")})` : "";
  return `The last question${long} went to ${last.mode.toUpperCase()}: ${reason}.`;
}

function byCost({ cheapest, mode, costs, last }) {
  if (!cheapest || (cheapest === mode && (!last || last.mode === mode))) return null;
  const other = cheapest === mode ? last.mode : mode;
  const against = costs[other]?.possible ? `, ${other.toUpperCase()} ${seconds(costs[other].lasting_s)}` : "";
  return `By cost alone it would be ${cheapest.toUpperCase()}: ${seconds(costs[cheapest].lasting_s)} a question in the long run${against}.`;
}

const costColumns = (chosen) => {
  const figure = (name, show) => ({
    name, figure: true, value: ([, cost]) => (cost.possible === false ? "–" : show(cost)),
  });
  return [
    { name: "way", value: ([mode]) => html`${mode.toUpperCase()}${mode === chosen ? html` <span class="tag">chosen</span>` : null}` },
    figure("in the long run", (cost) => seconds(cost.lasting_s)),
    figure("first token", (cost) => seconds(cost.ttft_s)),
    figure("prompt tokens", (cost) => count(cost.prompt_tokens)),
    figure("computed", (cost) => count(cost.prefill_tokens)),
    figure("held in memory", (cost) => count(cost.pool_tokens)),
    figure("search", (cost) => seconds(cost.retrieval_s)),
    { name: "why not", words: true, value: ([, cost]) => cost.problem ?? "" },
  ];
};

function engineCards({ engine, plan, model }) {
  return [
    { name: "model", value: model?.split("/").at(-1) ?? UNKNOWN, note: plan?.architecture },
    { name: "pool", value: isKnown(engine.pool_tokens) ? `${count(engine.pool_tokens)} tokens` : UNKNOWN,
      note: `in use: ${count(engine.used_tokens)}` },
    { name: "KV of a token", value: bytes(engine.measured_kv_bytes_per_token ?? plan?.kv_bytes_per_token) },
    { name: "window", value: isKnown(plan?.context_tokens) ? `${count(plan.context_tokens)} tokens` : UNKNOWN },
    { name: "prefill", value: isKnown(engine.prefill_tokens_per_s)
      ? `${number(engine.prefill_tokens_per_s)} tokens/s` : "not measured yet" },
  ];
}

function Corpus({ corpus }) {
  if (!corpus) return null;
  const fits = corpus.fits_window && corpus.fits_pool;
  return html`<h2>The whole collection as a prompt</h2><${Cards} cards=${[
    { name: "corpus", value: `${count(corpus.tokens)} tokens`, note: bytes(corpus.bytes) },
    { name: "share of the pool", value: percent(corpus.share_of_pool) },
    { name: "left for questions", value: `${count(corpus.left_tokens)} tokens` },
    { name: "fits", value: fits ? "yes" : "no",
      note: fits ? null : corpus.fits_window ? "not the pool" : "not the window" },
  ]} />`;
}

function Tiers({ tiers }) {
  if (!tiers?.length) return html`<p class="note">No tier below the engine's own memory is set up.</p>`;
  return html`<h2>Tiers</h2><${Table} caption="Tiers" rows=${tiers} rowKey=${(tier) => tier.tier}
    columns=${TIERS} />`;
}

const TIERS = [
  { name: "tier", value: (tier) => NAMES[tier.tier] ?? tier.tier },
  { name: "used", figure: true, value: (tier) => bytes(tier.used_bytes) },
  { name: "of", figure: true, value: (tier) => bytes(tier.capacity_bytes) },
  { name: "room for", figure: true, value: (tier) => plural(tier.tokens, "token") },
  { name: "loads", figure: true, value: (tier) => perSecond(tier.load_tokens_per_s) },
  { name: "pays from", figure: true, value: (tier) => plural(tier.pays_from_tokens, "token") },
  { name: "", words: true, value: (tier) => (tier.enabled === false ? "off: " : "") + (tier.verdict ?? "") },
];
const NAMES = { ram: "RAM", ssd: "SSD", redis: "Redis" };
const perSecond = (tokens) => (isKnown(tokens) ? `${number(tokens)} tokens/s` : UNKNOWN);

function Derivation({ steps }) {
  if (!steps?.length) return null;
  return html`<details><summary>How these figures come about</summary>
    <${Table} caption="Derivation" rows=${steps} rowKey=${(step) => step.name} columns=${[
      { name: "figure", value: (step) => step.name },
      { name: "value", figure: true, value: (step) => step.value },
      { name: "how", words: true, value: (step) => step.how },
    ]} /></details>`;
}
