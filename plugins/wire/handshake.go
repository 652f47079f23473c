// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

const (
	// Version is the version of the protocol. The handshake fails if the host and the plugin have
	// no version in common.
	Version = 1
	// MaxMessage is the maximum size of a message in bytes, in both directions.
	MaxMessage = 4 << 20

	pluginName = "tenantry"
)

// ErrVersion is the error of Start if the host and the plugin have no common version of our
// protocol, or of the protocol of go-plugin.
var ErrVersion = errors.New("the plugin uses a different protocol version")

// handshake is the configuration of go-plugin. The cookie shows a plugin that a host has started
// it. It is not a secret and protects nothing.
var handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "TENANTRY_PLUGIN",
	MagicCookieValue: "b6b0ad7a-hosted-by-tenantry",
}

// Hosted reports whether a host started this process.
func Hosted() bool { return os.Getenv(handshake.MagicCookieKey) == handshake.MagicCookieValue }

// grpcPlugin implements go-plugin's GRPCPlugin. On the host's side it returns the plain gRPC
// connection. On the plugin's side it registers the services in config.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	config *PluginConfig
}

func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	proto.RegisterPluginServer(s, &pluginServer{description: p.config.Describe, shareWaits: p.config.ShareWaits})
	if p.config.Mail != nil {
		proto.RegisterMailPlatformServer(s, &mailServer{newPlatform: p.config.Mail})
	}
	if p.config.DNS != nil {
		proto.RegisterDNSProviderServer(s, &dnsServer{newProvider: p.config.DNS})
	}
	if p.config.Sending != nil {
		proto.RegisterSendingPlatformServer(s, &sendingServer{newPlatform: p.config.Sending})
	}
	return nil
}

func (*grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func pluginSets(config *PluginConfig) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {pluginName: &grpcPlugin{config: config}}}
}

// tracingOptions returns options that propagate the trace context but not the caller's baggage.
// They record spans only for the services of tenantry, and none for the stream of waits, because
// that stream lasts as long as the process.
func tracingOptions() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool {
			return strings.HasPrefix(call.FullMethodName, "/tenantry.plugin.") &&
				call.FullMethodName != proto.Plugin_ShareWaits_FullMethodName
		}),
	}
}

// requestIDHeader is the gRPC metadata key for the id of the API request that caused a call.
const requestIDHeader = "x-request-id"

func sendRequestID(ctx context.Context) context.Context {
	if id := ports.RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, requestIDHeader, sanitize(id))
	}
	return ctx
}

func receiveRequestID(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if ids := md.Get(requestIDHeader); len(ids) == 1 {
		return ports.WithRequestID(ctx, sanitize(ids[0]))
	}
	return ctx
}

// startError converts the error of a failed start to one safe line. The error may contain output of
// the plugin, which is untrusted. redact removes the secrets from this output.
func startError(err error, redact func(string) string) error {
	if strings.HasPrefix(err.Error(), "incompatible API version") || strings.HasPrefix(err.Error(), "incompatible core API version") {
		return fmt.Errorf("%w: %s", ErrVersion, sanitize(redact(err.Error())))
	}
	line, isOtherLine := strings.CutPrefix(err.Error(), "Unrecognized remote plugin message: ")
	switch {
	case strings.HasSuffix(line, "Failed to read any lines from plugin's stdout"):
		return errors.New("the program does not complete the plugin handshake")
	case isOtherLine:
		return fmt.Errorf("the program does not complete the plugin handshake: the first line on standard output is %.*q, not the handshake line",
			maxQuotedLine, sanitize(redact(line)))
	}
	return errors.New(sanitize(redact(err.Error())))
}

// maxQuotedLine is how many characters of a program's first line an error quotes at most.
const maxQuotedLine = 80
