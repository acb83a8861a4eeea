// Asks for a key where the gateway wants one; it is tried before it is kept.
import { useState } from "preact/hooks";
import { getJson } from "./api.js";
import { html } from "./html.js";
import { Problem, Title } from "./parts.js";
import { forgetKey, hasKey, keepKey, key } from "./state.js";

export function KeyForm({ reason }) {
  const [problem, setProblem] = useState(hasKey.value ? reason : null);
  const [isTrying, setTrying] = useState(false);
  const tryIt = async (event) => {
    event.preventDefault();
    const written = new FormData(event.currentTarget).get("key").trim();
    if (!written) {
      setProblem("Enter a key; it begins with fw-.");
      return;
    }
    setTrying(true);
    key.value = written;
    try {
      await getJson("v1/models");
      keepKey(written);
    } catch (error) {
      forgetKey();
      setProblem(error.message);
    } finally {
      setTrying(false);
    }
  };
  return html`<${Title} text="Your key" />
    <p class="lead">This gateway wants an API key. It is kept in this tab until you close it, and sent to
      this gateway alone.</p>
    <form class="row" onSubmit=${tryIt} autocomplete="off">
      <label>Key <input name="key" type="password" class="wide" autocomplete="off" spellcheck="false"
        aria-invalid=${problem ? "true" : null} /></label>
      <button type="submit" class="main" disabled=${isTrying}>Use this key</button>
    </form>
    <${Problem} text=${problem} />
    <p class="dim">An admin makes one with <code>foreword keys create</code>.</p>`;
}
