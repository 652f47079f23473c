#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# modules.sh: write gomod.txt and gosum.txt, the go.mod and go.sum of a plugin in Go.
#
# It copies the Go templates into one module that uses this checkout, and runs
# `go mod tidy` there.
set -eu
cd "$(dirname "$0")"
here=$PWD
source=$(cd ../.. && pwd)
module=github.com/tenantry/tenantry
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r go-* "$folder"
cd "$folder"
find . -name '*.go' -exec sed -i "s|$module/plugins/template/|example/|" {} +
cp "$source/go.sum" go.sum
printf 'module example\n\n%s\n' "$(grep '^go ' "$source/go.mod")" >go.mod
go mod edit -require "$module@v0.0.0" -replace "$module=$source"
go mod tidy
go mod edit -dropreplace "$module"
cp go.mod "$here/gomod.txt"
cp go.sum "$here/gosum.txt"
