// SPDX-License-Identifier: Apache-2.0

// Package proto is the gRPC protocol between tenantry and its plugins. generate.sh generates the Go
// code from the .proto files.
//
//   - plugin.proto: the service that every plugin implements, and common messages. Start here.
//   - mail.proto, dns.proto, sending.proto: the services of the three kinds of provider.
//   - options.proto: the options that describe methods and fields.
//
// Outside tests, only package plugins/wire uses the generated code. Authors of plugins use
// plugins/sdk.
package proto

//go:generate ./generate.sh
