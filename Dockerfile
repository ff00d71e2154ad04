# Every image of the platform. `--build-arg SERVICE=dms-ingest` chooses the service; `--target front` is the one address
# before several dms-ingest. Plain Dockerfile syntax: it builds with BuildKit and with the builder before it.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm


# The one address in front: HAProxy as Debian ships it.
FROM ${PYTHON_IMAGE} AS front
ARG VERSION=0.1.0
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends haproxy \
 && rm -rf /var/lib/apt/lists/* /var/log/*
COPY deploy/haproxy.cfg /etc/haproxy/haproxy.cfg
RUN haproxy -c -f /etc/haproxy/haproxy.cfg
LABEL org.opencontainers.image.title="nexarch/front" org.opencontainers.image.version="${VERSION}"
USER haproxy
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/etc/haproxy/haproxy.cfg"]


# Wheels of everything that is installed: third parties' as pinned, with their hashes, and our own.
FROM ${PYTHON_IMAGE} AS wheels
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends binutils >/dev/null
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN pip install --quiet --require-hashes -r requirements/build.txt \
 && pip wheel --quiet --require-hashes --wheel-dir /wheels -r requirements/runtime.txt
COPY shared shared
COPY services services
RUN pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels ./shared ./services/*


# One service, what it needs, and nothing that the others need; `service` is the program of that name.
FROM wheels AS environment
ARG SERVICE
COPY migrations migrations
RUN : "${SERVICE:?--build-arg SERVICE=core-api, dms-ingest, dms-worker or alerter}" \
 && python -m venv --without-pip /opt/nexarch \
 && pip --python /opt/nexarch/bin/python install --quiet --no-index --find-links /wheels "$SERVICE" \
 && find /opt/nexarch -name '*.so' -exec strip --strip-unneeded {} + \
 && ln -s "$SERVICE" /opt/nexarch/bin/service \
 && if [ "$SERVICE" = core-api ]; then cp -r migrations /opt/nexarch/migrations; fi


FROM ${PYTHON_IMAGE} AS service
ARG SERVICE
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nexarch/${SERVICE}" org.opencontainers.image.version="${VERSION}"
# A new volume takes the owner of the folder that it is first mounted on. 10001 is everybody's number but Postgres'.
RUN groupadd --gid 10001 nexarch \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin nexarch \
 && for holder in platform postgres object-store core-api dms-ingest dms-worker alerter; do \
      install -d -o nexarch -g nexarch -m 0750 "/secrets/$holder"; done \
 && for folder in staging objects metrics scratch; do install -d -o nexarch -g nexarch -m 0750 "/srv/$folder"; done
COPY --from=environment /opt/nexarch /opt/nexarch
ENV PATH=/opt/nexarch/bin:$PATH PYTHONUNBUFFERED=1 NEXARCH_MIGRATIONS_DIR=/opt/nexarch/migrations
WORKDIR /srv
USER nexarch
CMD ["service"]
