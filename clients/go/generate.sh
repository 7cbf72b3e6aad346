#!/usr/bin/env bash
# Makes the stubs from the texts in proto/. Needs protoc (or PROTOC, a command like it) and:
#   go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.33.0
#   go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.3.0
# Both versions are old on purpose: stubs need a runtime that is no older than what made them, so
# newer ones would raise the versions in go.mod for everybody.
set -euo pipefail
cd "$(dirname "$0")"
module=monoceros.io/clients/go
find si v1 -name '*.pb.go' -delete 2>/dev/null || true
(cd ../../proto && find . -name '*.proto' | sed 's|^\./||' | sort) | xargs ${PROTOC:-protoc} -I ../../proto \
  --go_out=. --go_opt=module=$module --go-grpc_out=. --go-grpc_opt=module=$module
