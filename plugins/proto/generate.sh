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

# The templates in other languages have copies, so that a plugin outside this repository needs no
# protoc. copy FOLDER FILE writes a copy of the messages in FILE into a folder of the templates.
copy() {
	mkdir -p "../template/$1/messages/plugins/proto"
	case $1 in
	python*)
		protoc --proto_path=../.. --python_out="../template/$1/messages" "plugins/proto/$2.proto"
		sed -i '1i # SPDX-License-Identifier: Apache-2.0' "../template/$1/messages/plugins/proto/$2_pb2.py"
		;;
	*) cp "$2.proto" "../template/$1/messages/plugins/proto/$2.proto" ;;
	esac
}
for language in python node; do
	rm -rf ../template/$language*/messages
	copy $language options
	copy $language plugin
	for folder in ../template/$language-*; do
		kind=${folder##*-}
		copy "$language-$kind" "$kind"
	done
done
