# The gateway. Built from the repository's root; see docker-compose.yml.
FROM python:3.11.13-slim-bookworm

# PyTorch's index of CPU builds; the lock file's hashes hold whatever the address.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /opt/foreword
COPY requirements-serve.lock ./
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" --no-deps --require-hashes -r requirements-serve.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY prompts prompts
COPY cache cache
COPY retrieval retrieval
COPY bench bench
COPY deploy deploy
COPY samples samples
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    && useradd --uid 10001 --create-home foreword \
    && install -d -o foreword -g foreword /var/lib/foreword

USER foreword
ENV FOREWORD_HOME=/var/lib/foreword
EXPOSE 8400
CMD ["foreword", "serve"]
