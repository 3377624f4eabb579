#!/bin/sh
# `make image`: build the jobs image without a Docker engine and without an image registry, and run `hindcast doctor` in
# it. Needs root, and the Debian packages buildah and debootstrap. The base is Debian bookworm as debootstrap makes it.
set -eu
cd "$(dirname "$0")/.."
for tool in buildah debootstrap; do
  command -v $tool >/dev/null || { echo "image: $tool is missing: apt-get install buildah debootstrap" >&2; exit 1; }
done
work=$PWD/out/image
mkdir -p "$work"
storage="--storage-driver vfs --root $work/storage --runroot $work/run"

if [ ! -d "$work/base/usr/bin" ]; then
  echo "image: the base, about a minute"
  debootstrap --variant=minbase --include=ca-certificates,openjdk-17-jre-headless,procps,python3,python3-venv bookworm "$work/base" >"$work/base.log"
fi
# Certificates that this machine trusts, for a package index behind a proxy of its own.
mkdir -p "$work/base/etc/ssl/certs" && cp -L /etc/ssl/certs/ca-certificates.crt "$work/base/etc/ssl/certs/"
base=$(buildah $storage from scratch)
buildah $storage add -q "$base" "$work/base" / >/dev/null
buildah $storage commit -q "$base" hindcast-base >/dev/null
buildah $storage rm "$base" >/dev/null

echo "image: the jobs environment, some minutes and 20 GiB in $work"
buildah $storage bud --isolation chroot --build-arg BASE=localhost/hindcast-base -f docker/jobs.Dockerfile -t hindcast-jobs . >"$work/build.log" 2>&1 \
  || { tail -20 "$work/build.log"; exit 1; }
container=$(buildah $storage from localhost/hindcast-jobs)
buildah $storage run --isolation chroot "$container" -- python -m jobs doctor
buildah $storage rm "$container" >/dev/null
