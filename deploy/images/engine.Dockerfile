# SGLang's official image with LMCache and the guard plugin; runs the engine or the tier server,
# by the module named in the command. Built from the repository's root; see docker-compose.yml.
FROM lmsysorg/sglang:v0.5.23

# What SGLang's own packages are pinned to stays: where LMCache wants another, the build ends and says so.
COPY deploy/engine/lmcache-gpu.constraints /opt/foreword/
RUN pip freeze | grep -iE '^(torch|torchvision|torchaudio|torchao|triton|transformers|xgrammar|numpy|sglang|sgl|flashinfer)[a-z_-]*==' \
      > /opt/foreword/held.constraints \
    && pip install --no-cache-dir -c /opt/foreword/held.constraints -c /opt/foreword/lmcache-gpu.constraints \
      lmcache==0.5.6 hatchling==1.33.0
COPY deploy/engine-guard /opt/foreword/engine-guard
RUN pip install --no-cache-dir --no-deps --no-build-isolation /opt/foreword/engine-guard \
    && python3 -m foreword_guard.check \
    && useradd --uid 10001 --create-home foreword

# A user of the image's own; compiled kernels go to its home.
USER 10001
ENV HOME=/home/foreword
ENTRYPOINT ["python3", "-m"]
