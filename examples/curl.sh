#!/usr/bin/env bash
# curl alone: a streamed chat, a document with a question about it, and why its prompt cost what it did.
#
#     bash examples/curl.sh              # with a gateway at http://127.0.0.1:8400, or at FOREWORD_URL
set -euo pipefail
URL=${FOREWORD_URL:-http://127.0.0.1:8400}

call() { curl --silent --show-error --fail-with-body -H "authorization: Bearer ${FOREWORD_API_KEY:-unused}" "$@"; }
# The first id of an answer.
id() { grep -o '"id":"[^"]*"' | head -1 | cut -d '"' -f 4; }

echo "A chat; the last chunk before [DONE] has the usage and Foreword's own block:"
call "$URL/v1/chat/completions" --json '{
  "model": "default", "max_tokens": 12, "stream": true, "stream_options": {"include_usage": true},
  "messages": [{"role": "user", "content": "When does the ferry leave?"}]
}' | tail -4

echo "A collection with one document:"
STORE=$(call "$URL/v1/vector_stores" --json '{"name": "curl"}' | id)
FILE=$(call "$URL/v1/files" -F purpose=assistants -F file=@samples/ferry/island.html | id)
call "$URL/v1/vector_stores/$STORE/files" --json "{\"file_id\": \"$FILE\"}" >/dev/null
while call "$URL/v1/vector_stores/$STORE/files/$FILE" | grep in_progress >/dev/null; do sleep 0.2; done
call "$URL/v1/vector_stores/$STORE/search" --json '{"query": "lighthouse", "max_num_results": 1}'

echo; echo "A question about it:"
ANSWER=$(call "$URL/v1/chat/completions" --json "{
  \"model\": \"default\", \"max_tokens\": 40, \"foreword\": {\"collection\": \"$STORE\", \"mode\": \"cag\"},
  \"messages\": [{\"role\": \"user\", \"content\": \"When is the lighthouse open?\"}]
}")
echo "$ANSWER"

echo "What became of its prompt:"
call "$URL/foreword/explain/$(id <<<"$ANSWER")"
call -X DELETE "$URL/v1/vector_stores/$STORE" >/dev/null
