# concprobe in a container. The eBPF object is the checked-in one, so no LLVM is needed here.
#
#   docker build -t concprobe .
#   docker run --rm --privileged --pid=host concprobe run sem-fast
#
# With no more rights than it uses (SYS_RESOURCE: before Linux 5.11 maps count against a limit):
#
#   docker run --rm --pid=host --cap-add BPF --cap-add PERFMON --cap-add SYS_RESOURCE \
#       -v /sys/kernel/tracing:/sys/kernel/tracing:ro concprobe run sem-fast
#
# Without arguments it says what the machine allows, and what to do about the rest.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p concprobe

FROM debian:bookworm-slim
COPY --from=build /src/target/release/concprobe /usr/local/bin/concprobe
ENTRYPOINT ["concprobe"]
CMD ["doctor"]
