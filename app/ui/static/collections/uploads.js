// Taking files in, a few at a time; one that fails doesn't hold the others up.
import { ApiError, idPath, postJson, upload } from "../api.js";

const AT_ONCE = 2;
let made = 0;

// `change` is told how the list changes, `isReplacing(file)` whether a file takes the place of all of
// its name; the number of those that failed comes back.
export async function takeIn(collection, chosen, { change, onAdded, isReplacing }) {
  const entries = chosen.map((file) => ({
    key: ++made, file, name: file.name, state: "waiting", progress: 0, problem: null,
    isReplacing: isReplacing(file),
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
  const onProgress = (progress) =>
    update(entry, progress < 1 ? { progress } : { progress, state: "reading" });
  if (entry.isReplacing) {
    await replace(collection, entry, onProgress);
  } else {
    const fields = { purpose: "assistants" };
    const record = await upload("v1/files", entry.file, { fields, onProgress });
    await postJson(`v1/vector_stores/${idPath(collection)}/files`, { file_id: record.id });
  }
  update(entry, { state: "added", progress: 1 });
}

// Old and new change places in one transaction; a version that can't be read leaves the old one.
async function replace(collection, { file, name }, onProgress) {
  const done = await upload(`foreword/collections/${idPath(collection)}/sync`, file, { onProgress });
  const failure = done.failed?.[name];
  if (failure) throw new ApiError(`${failure.message} The older version stays.`);
}
