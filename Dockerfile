# The genmetric command in a container:
#
#     docker build --tag genmetric .
#     docker run --rm --volume "$PWD:/data" --user "$(id -u):$(id -g)" genmetric compare table.csv --target column
#
# The base image is pinned by tag. A release replaces the tag by the digest that
# `docker buildx imagetools inspect python:3.13-slim-bookworm` prints, for reproducible builds.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/genmetric \
    && /opt/genmetric/bin/python -m pip install --no-cache-dir --disable-pip-version-check ".[cli,report]"

FROM python:3.13-slim-bookworm
COPY --from=build /opt/genmetric /opt/genmetric
# A user without rights; files are read from and written to /data.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin genmetric \
    && mkdir /data && chown genmetric /data
ENV PATH="/opt/genmetric/bin:$PATH" \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /data
ENTRYPOINT ["genmetric"]
CMD ["--help"]
