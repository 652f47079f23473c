#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Generates the Go code next to the .proto files, and the messages of the plugin templates in other
# languages. protoc is the package of the distribution. Its two Go generators are pinned in
# .ci/tools/go.mod.
set -eu
cd "$(dirname "$0")"
tools=../../.ci/tools/go.mod

command -v protoc >/dev/null || {
	echo "protoc is missing: apt-get install protobuf-compiler libprotobuf-dev" >&2
	exit 1
}
messages=$(go tool -modfile="$tools" -n google.golang.org/protobuf/cmd/protoc-gen-go)
services=$(go tool -modfile="$tools" -n google.golang.org/grpc/cmd/protoc-gen-go-grpc)

protoc --proto_path=../.. \
	--plugin=protoc-gen-go="$messages" --go_out=../.. --go_opt=paths=source_relative \
	--plugin=protoc-gen-go-grpc="$services" --go-grpc_out=../.. --go-grpc_opt=paths=source_relative \
	plugins/proto/options.proto plugins/proto/plugin.proto plugins/proto/mail.proto plugins/proto/dns.proto \
	plugins/proto/sending.proto

# protoc writes its version into each file. Without that line the files are the same on every
# distribution.
sed -i '/^\/\/ .*protoc  *v[0-9.]*$/d' ./*.pb.go

# The templates have copies, so that a plugin outside this repository needs no protoc.
python=../template/python-dns/messages node=../template/node-dns/messages
dns="plugins/proto/options.proto plugins/proto/plugin.proto plugins/proto/dns.proto"
rm -rf "$python" "$node"
mkdir -p "$python" "$node/plugins/proto"
# shellcheck disable=SC2086 # one word a file
protoc --proto_path=../.. --python_out="$python" $dns
sed -i '1i # SPDX-License-Identifier: Apache-2.0' "$python"/plugins/proto/*.py
for file in $dns; do cp "../../$file" "$node/$file"; done
