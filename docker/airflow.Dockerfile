# The Airflow image: the jobs image (Spark drivers and light steps run beside the scheduler) and Airflow's environment.
ARG BASE=hindcast-jobs:0.1.0
FROM ${BASE}
SHELL ["/bin/sh", "-ec"]
WORKDIR /opt/hindcast
RUN PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_CACHE_DIR=/tmp/uv python3 setup --image airflow \
 && rm -rf /tmp/uv
COPY --chown=hindcast dags dags
COPY --chown=hindcast triggers triggers
ENV PATH=/opt/hindcast/.venv-airflow/bin:/opt/hindcast/.venv/bin:$PATH \
    AIRFLOW_HOME=/data/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/hindcast/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False
WORKDIR /data
HEALTHCHECK --interval=1m --timeout=30s CMD ["airflow", "version"]
ENTRYPOINT ["airflow"]
CMD ["version"]
