// SPDX-License-Identifier: Apache-2.0

// Package httpapi serves the HTTP API of tenantry: the operations, the OpenAPI document that
// describes them, and the pages about the API.
//
// New builds the handler from Options, and Server builds the HTTP server for it. A request passes
// the middleware of package guard and then reaches an operation or a page. An operation converts
// its input, calls a use case in the packages of app, and converts the result. It returns a refusal
// as an error of core/fault, which package refusal converts to an HTTP answer.
//
// Start reading with the file of one resource, such as tenants.go. Then read register.go.
//
// Operations: each resource has a file with its operations, and with the shapes of their requests
// and answers. The files are tenants.go, connectsessions.go, domains.go, dns.go, dnsruns.go,
// mailboxes.go, limits.go, enforcement.go, integrations.go, integrations_mailboxes.go, events.go,
// webhooks.go, keys.go, me.go and audit.go. The shapes of webhooks are in webhook_shapes.go, and
// the shapes of integrations_mailboxes.go are in integrations.go. Each operation declares its
// guard.OperationRules, such as the rate limit, the scope, the error codes and the examples.
// register.go configures the huma library and adds operations to the API. query.go parses query
// parameters, and paging.go has the cursors of lists.
//
// OpenAPI document: package openapi completes the OpenAPI document that huma derives. document.go
// describes the tags and parameters, and examples.go has most examples. public.go adds the routes
// of the document and of the pages, and cached.go serves the document.
//
// Connections: Server sets the timeouts of a connection. connectionlimit.go limits the number of
// connections.
package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/app/enforcement"
	"github.com/tenantry/tenantry/app/events"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/app/webhooks"
)

// Options has the use cases that the API calls, and the options of the middleware.
type Options struct {
	Tenants      *tenants.Service
	Domains      *domains.Service
	DNSRuns      *dnsruns.Service
	Mailboxes    *mailboxes.Service
	SendLimits   *limits.Service
	Enforcement  *enforcement.Service // lists the events of send limit enforcement
	Integrations *integrations.Service
	Events       *events.Service // reads the event log
	Profile      *keys.Profile   // describes the caller's account and key
	Audit        *audits.Service
	Webhooks     *webhooks.Service
	Guard        guard.Options
}

// New returns the handler of the API with all middleware.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	api := newAPI(mux)
	registerOperations(api, o)
	addPublicRoutes(mux, api.OpenAPI())
	return guard.New(mux, api.OpenAPI(), o.Guard)
}

// The timeouts and size limits of a connection. writeTimeout is longer than syncTimeLimit, the
// longest time limit of an operation without a stream. A stream sets a new deadline for each chunk
// that it sends (see guard.Stream).
const (
	headTimeout   = 5 * time.Second
	readTimeout   = 15 * time.Second // for the head and the body together
	writeTimeout  = 130 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeadBytes  = 16 << 10
	headAllowance = 4 << 10 // net/http adds this many bytes to MaxHeaderBytes
)

// sendBuffer is the size in bytes of the kernel's send buffer for a connection. The kernel may
// double the size. By default the kernel would buffer megabytes for a client that does not read.
const sendBuffer = 64 << 10

// Server returns an HTTP server for handler, with timeouts and size limits against slow and hostile
// clients. Package guard also closes the connection of a client that does not read its answer.
//
// The server supports HTTP/1.1 only. An HTTP/2 client could have many slow requests on one
// connection. Also, when the service stops, package app/server guarantees answers to the requests
// in progress only for HTTP/1.1.
func Server(addr string, handler http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:                    &protocols,
		ConnContext:                  limitSendBuffer,
		Addr:                         addr,
		Handler:                      handler,
		ReadHeaderTimeout:            headTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeadBytes - headAllowance,
		DisableGeneralOptionsHandler: true, // OPTIONS * gets a 404 answer like any unknown path
	}
}

// limitSendBuffer sets the size of the connection's send buffer. It returns ctx.
func limitSendBuffer(ctx context.Context, connection net.Conn) context.Context {
	if tcp, ok := transport(connection).(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // an error only means that the kernel uses more memory
	}
	return ctx
}
