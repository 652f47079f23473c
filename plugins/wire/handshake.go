// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/tenantry/tenantry/plugins/proto"
)

const (
	// Version is the protocol that this package speaks. Host and plugin say
	// theirs in the handshake and part when they have none in common.
	Version = 1
	// MaxMessage bounds a message in either direction, on both sides.
	MaxMessage = 4 << 20

	service = "tenantry"
)

// ErrVersion says that host and plugin have no protocol version in common.
var ErrVersion = errors.New("the plugin speaks another protocol version")

// The cookie tells a plugin that a host started it. It protects nothing.
var handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "TENANTRY_PLUGIN",
	MagicCookieValue: "b6b0ad7a-hosted-by-tenantry",
}

// Hosted reports whether this process was started by a host, rather than by
// hand.
func Hosted() bool { return os.Getenv(handshake.MagicCookieKey) == handshake.MagicCookieValue }

// carrier makes go-plugin hand out the bare connection on the host's side and
// register our services on the plugin's.
type carrier struct {
	plugin.NetRPCUnsupportedPlugin
	served *Served
}

func (c *carrier) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	proto.RegisterPluginServer(s, &pluginServer{description: c.served.Describe})
	if c.served.Mail != nil {
		proto.RegisterMailPlatformServer(s, &mailServer{platform: c.served.Mail})
	}
	if c.served.DNS != nil {
		proto.RegisterDNSProviderServer(s, &dnsServer{provider: c.served.DNS})
	}
	if c.served.Sending != nil {
		proto.RegisterSendingPlatformServer(s, &sendingServer{platform: c.served.Sending})
	}
	return nil
}

func (*carrier) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func versions(served *Served) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {service: &carrier{served: served}}}
}

// tracing lets the trace context cross, and nothing of the caller's baggage.
// go-plugin's own services are no part of a trace.
func tracing() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool {
			return strings.HasPrefix(call.FullMethodName, "/tenantry.plugin.")
		}),
	}
}
