# SGLang's official image with LMCache and the guard plugin; runs the engine or the tier server,
# by the module named in the command. Built from the repository's root; see docker-compose.yml.
FROM lmsysorg/sglang:v0.5.23

RUN pip install --no-cache-dir lmcache==0.5.6 hatchling==1.33.0
COPY deploy/engine-guard /opt/foreword/engine-guard
RUN pip install --no-cache-dir --no-deps --no-build-isolation /opt/foreword/engine-guard \
    && python3 -m foreword_guard.check \
    && useradd --uid 10001 --create-home foreword

# A user of the image's own; compiled kernels go to its home.
USER 10001
ENV HOME=/home/foreword
ENTRYPOINT ["python3", "-m"]
