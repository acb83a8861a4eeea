// Taking files in, a few at a time; one that fails doesn't hold the others up.
import { postJson, upload } from "../api.js";

const AT_ONCE = 2;
let made = 0;

// `change` is told how the list changes; the number of those that failed comes back.
export async function takeIn(collection, chosen, { change, onAdded }) {
  const entries = chosen.map((file) => ({
    key: ++made, file, name: file.name, state: "waiting", progress: 0, problem: null,
  }));
  change((known) => [...entries, ...known.filter((entry) => entry.state !== "added")]);
  const update = (entry, changes) =>
    change((known) => known.map((each) => (each.key === entry.key ? { ...each, ...changes } : each)));
  const waiting = [...entries];
  let failed = 0;
  const work = async () => {
    for (let entry = waiting.shift(); entry; entry = waiting.shift()) {
      try {
        await takeOne(collection, entry, update);
        onAdded();
      } catch (error) {
        failed += 1;
        update(entry, { state: "failed", problem: error.message });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failed;
}

async function takeOne(collection, entry, update) {
  update(entry, { state: "uploading" });
  const record = await upload(entry.file, { onProgress: (progress) => update(entry, { progress }) });
  await postJson(`v1/vector_stores/${collection}/files`, { file_id: record.id });
  update(entry, { state: "added", progress: 1 });
}
