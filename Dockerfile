# One image with both daemons; the command says which: `baton-coordinator ...` or `baton-agent ...`.
# Both listen on port 7420 here, so that one health check fits both.

FROM debian:12-slim AS build
WORKDIR /src
# The set-up first and alone: its layer is made again only when it changes.
COPY scripts scripts
RUN scripts/setup.sh build
COPY . .
RUN make -j"$(nproc)" all && make install DESTDIR=/out PREFIX=/usr

FROM debian:12-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        curl \
        libcurl4 \
        libjansson4 \
        liblmdb0 \
        libmicrohttpd12 \
        librdkafka1 \
        libsqlite3-0 \
        libxxhash0 \
        zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/baton --create-home baton
COPY --from=build /out/usr/ /usr/

# Named volumes take over the owner of the folder that they cover.
USER baton
VOLUME /var/lib/baton
WORKDIR /var/lib/baton
EXPOSE 7420
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=6 \
    CMD ["curl", "--fail", "--silent", "--show-error", "--output", "/dev/null", "http://127.0.0.1:7420/healthz"]
CMD ["baton-coordinator", "--help"]
