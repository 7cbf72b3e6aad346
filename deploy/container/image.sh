#!/bin/sh
# Gathers what the image of the service is made of: the program and what it needs to run.
#   image.sh PROGRAM FOLDER
set -eu
program=$1
image=$2

mkdir -p "$image/usr/bin" "$image/etc/ssl/certs"
cp "$program" "$image/usr/bin/monoceros"

# The libraries, and what loads them, each where the program looks for it.
ldd "$program" | sed -n -e 's/.* => \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' |
    while read -r library; do
        mkdir -p "$image$(dirname "$library")"
        cp -L "$library" "$image$library"
    done

# Whoever speaks LDAP inside TLS needs to know whom to believe.
cp -L /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/"
# Names of users are looked up in these.
echo 'monoceros:x:65532:65532::/:/sbin/nologin' >"$image/etc/passwd"
echo 'monoceros:x:65532:' >"$image/etc/group"
