#!/usr/bin/env bash
# Makes the stubs from the texts in proto/. Needs grpcio-tools and mypy-protobuf in Python 3.11 (or PYTHON):
#   pip install grpcio-tools==1.62.3 mypy-protobuf==3.6.0 'setuptools<80'
# Both versions are old on purpose: stubs of newer tools refuse every runtime that is older than the tools or two major versions
# newer. The stubs of these import with every protobuf from 4.25 on.
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3}
plugin=$(dirname "$($python -c 'import sys; print(sys.executable)')")/protoc-gen-mypy_grpc
find monoceros -name '*_pb2*' -delete
(cd ../../proto && find . -name '*.proto' | sed 's|^\./||' | sort) | xargs "$python" -m grpc_tools.protoc \
  -I ../../proto --python_out=. --pyi_out=. --grpc_python_out=. \
  --plugin=protoc-gen-mypy_grpc="$plugin" --mypy_grpc_out=quiet:.
# Texts without a service get stubs of services without content.
grep -L 'class .*Stub' $(find monoceros -name '*_pb2_grpc.py*') | xargs rm
find monoceros -mindepth 1 -type d -not -name __pycache__ -exec touch {}/__init__.py \;
