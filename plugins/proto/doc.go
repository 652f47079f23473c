// SPDX-License-Identifier: Apache-2.0

// Package proto is the protocol between tenantry and its plugins: .proto files
// and the Go code that generate.sh makes of them.
package proto

//go:generate ./generate.sh
