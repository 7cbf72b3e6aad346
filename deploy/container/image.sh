#!/bin/sh
# Collects the content of the service's image: the program and what it needs to run.
#   image.sh PROGRAM FOLDER
set -eu
program=$1
image=$2

mkdir -p "$image/usr/bin" "$image/etc/ssl/certs"
cp "$program" "$image/usr/bin/monoceros"

# The libraries and their loader, at the paths where the program expects them.
ldd "$program" | sed -n -e 's/.* => \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' |
    while read -r library; do
        mkdir -p "$image$(dirname "$library")"
        cp -L "$library" "$image$library"
    done

# LDAP over TLS needs the certificate authorities.
cp -L /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/"
# User names are looked up in these files.
echo 'monoceros:x:65532:65532::/:/sbin/nologin' >"$image/etc/passwd"
echo 'monoceros:x:65532:' >"$image/etc/group"
