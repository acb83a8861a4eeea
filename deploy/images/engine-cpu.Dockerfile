# SGLang and LMCache without CUDA, as `foreword up` installs them, with both plugins; runs the engine
# or the tier server, by the module named in the command. Built from the repository's root.
FROM python:3.11.13-slim-bookworm

# PyTorch's index of CPU builds; the lock file's hashes hold whatever the address.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

COPY deploy/engine/requirements-cpu.lock /opt/foreword/
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" --no-deps --require-hashes -r /opt/foreword/requirements-cpu.lock
COPY deploy/engine-cpu /opt/foreword/engine-cpu
COPY deploy/engine-guard /opt/foreword/engine-guard
RUN pip install --no-cache-dir --no-deps --no-build-isolation /opt/foreword/engine-cpu /opt/foreword/engine-guard \
    && python3 -m foreword_guard.check \
    && useradd --uid 10001 --create-home foreword

USER 10001
ENV HOME=/home/foreword
ENTRYPOINT ["python3", "-m"]
