# syntax=docker/dockerfile:1
# One static binary and nothing else. For another platform: docker build --platform linux/arm64 .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Set by the builder. A default here would win over it.
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
ARG REVISION=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=$VERSION -X main.revision=$REVISION" -o /nri-cpuset ./cmd/nri-cpuset

FROM scratch
ARG VERSION=devel
ARG REVISION=
LABEL org.opencontainers.image.title="nri-cpuset" \
      org.opencontainers.image.description="Pins the CPUs and the memory of Kubernetes containers before they start" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /nri-cpuset /nri-cpuset
COPY --from=build /src/LICENSE /LICENSE
ENTRYPOINT ["/nri-cpuset"]
CMD ["run"]
