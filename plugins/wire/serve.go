// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// PluginConfig contains the description of a plugin and the constructor of its provider. One of
// Mail, DNS and Sending is set.
type PluginConfig struct {
	Describe Description
	Mail     func(Connection) (ports.MailPlatform, error)
	DNS      func(Connection) (ports.DNSProvider, error)
	Sending  func(Connection) (ports.SendingPlatform, error)
	// ShareWaits is called with the host's store of waits, which all processes of the plugin share.
	// It is nil for a plugin that shares no waits.
	ShareWaits func(ports.Waits)
	Log        *slog.Logger
}

// Serve answers the calls of the host until the host asks it to stop. It writes the handshake line
// to standard output, so nothing else may write there before.
func Serve(s PluginConfig) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: pluginSets(&s),
		GRPCServer:       func(opts []grpc.ServerOption) *grpc.Server { return newServer(s.Log, s.Describe, opts...) },
		Logger: hclog.New(&hclog.LoggerOptions{
			Name: "go-plugin", Level: hclog.Warn, Output: os.Stderr, JSONFormat: true,
		}),
	})
}

func newServer(log *slog.Logger, d Description, opts ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.StatsHandler(otelgrpc.NewServerHandler(tracingOptions()...)),
		grpc.ChainUnaryInterceptor(handleCall(log, d)),
	)...)
}

// handleCall returns an interceptor that puts the request id and the allowed hosts into the
// context. It recovers panics, so that a panic ends only its own call. It does not log the panic's
// value, because the value may contain a secret.
func handleCall(log *slog.Logger, d Description) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		ctx = receiveRequestID(ctx)
		if call, ok := req.(interface{ GetConnection() *proto.Connection }); ok && len(d.Hosts) > 0 {
			ctx = WithHosts(ctx, d.HostsOf(connectionFromProto(call.GetConnection())))
		}
		defer func() {
			if p := recover(); p != nil {
				e := panics.ErrorOf(p)
				log.ErrorContext(ctx, "call panicked", "method", info.FullMethod, "type", e.Type, "stack", e.Stack)
				resp, err = nil, toStatus(&outcome.Error{Kind: outcome.Broken, Cause: CausePanic, Detail: "the plugin failed in this call"})
			}
		}()
		return next(ctx, req)
	}
}

type pluginServer struct {
	proto.UnimplementedPluginServer
	description Description
	shareWaits  func(ports.Waits)
}

func (s *pluginServer) Describe(context.Context, *proto.DescribeRequest) (*proto.Description, error) {
	return descriptionToProto(s.description), nil
}

// serveCall creates the provider for one call, runs the call and converts its result.
func serveCall[P, T, A any](create func(Connection) (P, error), c *proto.Connection, run func(P) (T, error), toProto func(T) *A) (*A, error) {
	p, err := create(connectionFromProto(c))
	if err != nil {
		return nil, toStatus(err)
	}
	result, err := run(p)
	if err != nil {
		return nil, toStatus(err)
	}
	return toProto(result), nil
}
