# The jobs image: every step, Spark included. BASE needs python3 (3.11 to 3.13) with venv, and apt; it is an argument, so
# that the image can be built where no image registry is reached (`make image`).
ARG BASE=debian:12.11-slim
FROM ${BASE}
SHELL ["/bin/sh", "-ec"]
# hadolint ignore=DL3008
RUN if ! command -v java; then \
      apt-get update \
      && apt-get install -y --no-install-recommends ca-certificates openjdk-17-jre-headless procps python3 python3-venv \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
 && useradd --uid 10001 --create-home hindcast \
 && mkdir /opt/hindcast /data \
 && chown hindcast /opt/hindcast /data
USER 10001
WORKDIR /opt/hindcast
COPY --chown=hindcast requirements requirements
COPY --chown=hindcast setup setup
COPY --chown=hindcast jobs/doctor jobs/doctor
# The jars that `make setup` fetched and verified, if it ran here; else they are fetched now. (A pattern may match nothing.)
COPY --chown=hindcast LICENSE .jar[s]/ .jars/
# uv's cache is no part of the image.
RUN mkdir .cache \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_CACHE_DIR=/tmp/uv UV_LINK_MODE=hardlink python3 setup --image jobs \
 && rm -rf /tmp/uv
COPY --chown=hindcast pyproject.toml README.md LICENSE ./
COPY --chown=hindcast schemas schemas
COPY --chown=hindcast jobs jobs
ENV PATH=/opt/hindcast/.venv/bin:$PATH \
    PYTHONPATH=/opt/hindcast \
    HINDCAST_HOME=/opt/hindcast \
    HINDCAST_SCRATCH=/tmp
WORKDIR /data
HEALTHCHECK --interval=5m --timeout=30s CMD ["python", "-m", "jobs", "--help"]
ENTRYPOINT ["python", "-m", "jobs"]
CMD ["--help"]
