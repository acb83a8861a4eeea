// What was re-used, what could have been, and why the rest was lost.
import { useEffect, useState } from "preact/hooks";
import { getJson, send } from "../api.js";
import { count, isKnown, moment, percent, plural, seconds, UNKNOWN } from "../format.js";
import { html } from "../html.js";
import { Cards, Empty, Problem, Table, Title, Waiting } from "../parts.js";
import { link, route } from "../state.js";
import { Flame } from "../report/flame.js";
import { Waterfall } from "../report/waterfall.js";

const SINCE = { "1h": "the last hour", "24h": "the last day", "7d": "the last week", "30d": "the last 30 days" };
const BY = ["template", "tenant", "collection", "mode", "replica"];

export function ReportPage() {
  const { query } = route.value;
  const since = query.get("since") in SINCE ? query.get("since") : "24h";
  const by = BY.includes(query.get("by")) ? query.get("by") : "template";
  const [report, setReport] = useState(null);
  const [problem, setProblem] = useState(null);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let left = false;
    setProblem(null);
    getJson(`foreword/report?since=${since}&by=${by}`)
      .then((made) => left || setReport(made))
      .catch((error) => left || setProblem(error.message));
    return () => (left = true);
  }, [since, by, asked]);
  const choose = (changes) => (location.hash = link("report", "", { since, by, ...changes }));
  const save = () => saved(since, by).catch((error) => setProblem(error.message));
  return html`<${Title} text="Report">
      <button type="button" onClick=${() => setAsked((n) => n + 1)}>Refresh</button>
      <button type="button" onClick=${save}>Save as a page</button>
    </${Title}>
    <div class="row">
      <label>Requests of <select value=${since} onChange=${(e) => choose({ since: e.currentTarget.value })}>
        ${Object.entries(SINCE).map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
      </select></label>
      <label>by <select value=${by} onChange=${(e) => choose({ by: e.currentTarget.value })}>
        ${BY.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <a href=${link("explain", "last")}>Explain the last request</a>
    </div>
    <${Problem} text=${problem} />
    ${!report && !problem && html`<${Waiting} />`}
    ${report && html`<${Body} report=${report} />`}`;
}

// The page with all plots needs nothing of any server; it is loaded with the key and saved.
async function saved(since, by) {
  const answer = await send("GET", `foreword/report?format=html&since=${since}&by=${by}`);
  const address = URL.createObjectURL(await answer.blob());
  const anchor = Object.assign(document.createElement("a"), {
    href: address, download: `foreword-report-${new Date().toISOString().slice(0, 10)}.html`,
  });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function Body({ report }) {
  const total = report.total;
  if (!total || !total.requests) {
    return html`<${Empty}><p>Nothing was asked in this time.</p></${Empty}>`;
  }
  return html`<${Alerts} report=${report} />
    <${Cards} cards=${cardsOf(total)} />
    <section aria-labelledby="where"><h2 id="where">Where the prompt tokens went</h2>
      <${Waterfall} group=${total} /></section>
    <section aria-labelledby="groups"><h2 id="groups">By ${report.by.join(" and ")}</h2>
      <${Groups} report=${report} /></section>
    <section aria-labelledby="flame"><h2 id="flame">What prompts share, and where they part</h2>
      ${report.flame ? html`<${Flame} root=${report.flame} />` : html`<p class="note">The prefix flame
        counts all tenants' prompts since the gateway started: it is shown to admins, once there are
        some.</p>`}</section>
    <${Ledger} report=${report} />`;
}

function cardsOf(total) {
  const { hit_rate: hit, waterfall } = total;
  return [
    { name: "re-used", value: percent(hit.rate), note: hit.unknown_requests
      ? `unknown for ${plural(hit.unknown_requests, "request")}` : "of the prompt tokens" },
    { name: "best possible", value: percent(waterfall?.ideal_rate), note: "with endless memory" },
    { name: "requests", value: count(total.requests), note: total.errors
      ? `${count(total.errors)} failed` : null },
    { name: "prompt tokens", value: count(total.prompt_tokens.tokens) },
    { name: "first token", value: seconds(total.ttft_s.p50), note: `p99 ${seconds(total.ttft_s.p99)}` },
  ];
}

function Groups({ report }) {
  const rows = [...report.groups, ...(report.other ? [{ ...report.other, other: true }] : [])];
  return html`<${Table} caption=${`Requests by ${report.by.join(" and ")}`} rows=${rows}
    rowKey=${nameOf} columns=${[
      { name: report.by.join(", "), value: nameOf },
      { name: "requests", figure: true, value: (group) => count(group.requests) },
      { name: "prompt tokens", figure: true, value: (group) => count(group.prompt_tokens.tokens) },
      { name: "re-used", figure: true, value: (group) => percent(group.hit_rate.rate) },
      { name: "possible", figure: true, value: (group) => percent(group.waterfall?.ideal_rate) },
      { name: "most lost to", value: lostTo },
      { name: "first token p50", figure: true, value: (group) => seconds(group.ttft_s.p50) },
    ]} />`;
}

const nameOf = (group) =>
  group.other ? "the rest" : Object.values(group.group).map((name) => name ?? "none").join(" · ");

function lostTo(group) {
  if (!group.waterfall) return UNKNOWN;
  const lost = Object.entries(group.waterfall.lost_tokens).sort(([, a], [, b]) => b - a)[0];
  return lost ? `${lost[0]} (${count(lost[1])})` : "nothing";
}

function Alerts({ report }) {
  const fell = report.alerts.version_fell.map((fall) =>
    `${fall.now.template} re-uses ${percent(fall.now.hit_rate)}, ${fall.before.template} re-used ${percent(fall.before.hit_rate)}.`);
  const missed = report.alerts.budgets.filter((check) => check.status !== "ok").map((check) =>
    `${check.template}: the budget of ${percent(check.budget)} is ${check.status}.`);
  return [...fell, ...missed].map((text) => html`<p class="note warning" key=${text}>${text}</p>`);
}

// The difference is what answers told less what the engine's counters say.
function compared(check) {
  const difference = check?.is_whole && check.templates.length ? check.difference_tokens : null;
  if (!isKnown(difference)) return "The engine's own counters weren't compared.";
  if (difference === 0) return "The engine's own counters say the same of re-used tokens.";
  const more = difference < 0 ? "more" : "fewer";
  return `The engine's own counters say ${plural(Math.abs(difference), `re-used token`)} ${more} than its answers told${
    check.unknown_requests ? `; ${plural(check.unknown_requests, "request")} told nothing` : ""}.`;
}

function Ledger({ report }) {
  const { ledger, cross_check: check } = report;
  return html`<section aria-labelledby="trust"><h2 id="trust">Can this be believed?</h2><ul class="plain">
    <li>${compared(check)}</li>
    <li>${ledger ? (ledger.dropped
      ? `${plural(ledger.dropped, "request")} could not be written down and are missing here.`
      : "No request is missing.") : "Whether requests are missing is told to admins."}</li>
    <li>Made at ${moment(report.made_at)}.</li></ul></section>`;
}
