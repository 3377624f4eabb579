# A server for one local model (GGUF), with the protocol of OpenAI: the jobs image and the locked server of `local`.
ARG BASE=hindcast-jobs:0.1.0
FROM ${BASE}
SHELL ["/bin/sh", "-ec"]
WORKDIR /opt/hindcast
RUN PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_CACHE_DIR=/tmp/uv python3 setup --image model \
 && rm -rf /tmp/uv
COPY --chown=hindcast docker/serve_model.py serve_model.py
HEALTHCHECK --interval=1m --timeout=15s --start-period=2m \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=10)"]
ENTRYPOINT ["python", "/opt/hindcast/serve_model.py"]
CMD ["/data/models/model.gguf", "8000", "4096", "2"]
