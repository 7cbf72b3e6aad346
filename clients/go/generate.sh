#!/usr/bin/env bash
# Makes the stubs from the texts in proto/. Needs protoc (or PROTOC, a command like it) and:
#   go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
#   go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
set -euo pipefail
cd "$(dirname "$0")"
module=monoceros.io/clients/go
find si v1 -name '*.pb.go' -delete 2>/dev/null || true
(cd ../../proto && find . -name '*.proto' | sed 's|^\./||' | sort) | xargs ${PROTOC:-protoc} -I ../../proto \
  --go_out=. --go_opt=module=$module --go-grpc_out=. --go-grpc_opt=module=$module
