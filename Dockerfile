# esbench in a container: docker build -t esbench . && docker run --rm -v esbench:/esbench esbench --help
FROM python:3.13 AS build
WORKDIR /src
COPY .ci/requirements.txt ./
RUN python -m venv /opt/esbench && /opt/esbench/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY esbench ./esbench
COPY tracks ./tracks
RUN /opt/esbench/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
COPY --from=build /opt/esbench /opt/esbench
RUN useradd --uid 64000 --no-create-home esbench && install -d -o esbench /esbench
USER 64000
ENV PATH=/opt/esbench/bin:$PATH ESBENCH_HOME=/esbench
VOLUME /esbench
ENTRYPOINT ["esbench"]
CMD ["--help"]
