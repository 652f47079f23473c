// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// MailInProcess returns a mail platform that calls p through the protocol and the interceptors, but
// in this process.
func MailInProcess(p ports.MailPlatform, interceptors ...Interceptor) ports.MailPlatform {
	server := &mailServer{newPlatform: func(Connection) (ports.MailPlatform, error) { return p, nil }}
	return MailClient(openInProcess(&proto.MailPlatform_ServiceDesc, server), interceptors...)
}

// DNSInProcess returns a DNS provider that calls p in the same way as MailInProcess.
func DNSInProcess(p ports.DNSProvider, interceptors ...Interceptor) ports.DNSProvider {
	server := &dnsServer{newProvider: func(Connection) (ports.DNSProvider, error) { return p, nil }}
	return DNSClient(openInProcess(&proto.DNSProvider_ServiceDesc, server), interceptors...)
}

// SendingInProcess returns a sending platform that calls p in the same way as MailInProcess.
func SendingInProcess(p ports.SendingPlatform, interceptors ...Interceptor) ports.SendingPlatform {
	server := &sendingServer{newPlatform: func(Connection) (ports.SendingPlatform, error) { return p, nil }}
	return SendingClient(openInProcess(&proto.SendingPlatform_ServiceDesc, server), interceptors...)
}

func openInProcess(service *grpc.ServiceDesc, server any) Opener {
	process := &Process{conn: inProcessConn{service: service, server: server}}
	return func(context.Context, ...secret.Text) (Session, error) { return Session{Process: process}, nil }
}

// inProcessConn is a gRPC connection that calls the methods of a server directly.
type inProcessConn struct {
	noStreams
	service *grpc.ServiceDesc
	server  any
}

// Invoke implements grpc.ClientConnInterface.
func (c inProcessConn) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	for _, m := range c.service.Methods {
		if "/"+c.service.ServiceName+"/"+m.MethodName != method {
			continue
		}
		answer, err := m.Handler(c.server, ctx, func(in any) error {
			protobuf.Merge(in.(protobuf.Message), request.(protobuf.Message))
			return nil
		}, nil)
		if err != nil {
			return err
		}
		protobuf.Merge(reply.(protobuf.Message), answer.(protobuf.Message))
		return nil
	}
	return status.Error(codes.Unimplemented, method)
}
