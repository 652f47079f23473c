// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// SendingClient returns a sending platform whose methods call a plugin process through the
// interceptors. The first interceptor is the outermost.
func SendingClient(open Opener, interceptors ...Interceptor) ports.SendingPlatform {
	return sendingClient{proto.NewSendingPlatformClient(chain{open: open, probeOf: sendingProbe, interceptors: interceptors})}
}

// sendingProbe is the probeOf of sending platforms. Its call tests the credential.
func sendingProbe(protobuf.Message) (method string, request, reply protobuf.Message) {
	return proto.SendingPlatform_Check_FullMethodName, new(proto.SendingCheckRequest), new(proto.SendingReach)
}

type sendingClient struct{ rpc proto.SendingPlatformClient }

func (c sendingClient) Check(ctx context.Context) (integration.Reach, error) {
	resp, err := c.rpc.Check(ctx, &proto.SendingCheckRequest{})
	return reachFromProto(resp), err
}

func (c sendingClient) Account(ctx context.Context, address string) (integration.Account, error) {
	resp, err := c.rpc.Account(ctx, &proto.SendingAccountRequest{Address: address})
	return accountFromProto(resp), err
}

func (c sendingClient) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	resp, err := c.rpc.Accounts(ctx, &proto.SendingAccountsRequest{Cursor: cursor})
	return pageFromProto(resp), err
}

func (c sendingClient) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	resp, err := c.rpc.StartSignIn(ctx, &proto.StartSignInRequest{Address: address})
	return sessionFromProto(resp), err
}

func (c sendingClient) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	resp, err := c.rpc.SignIn(ctx, &proto.SendingSignInRequest{Session: session})
	return signInProgressFromProto(resp), err
}

func (c sendingClient) Remove(ctx context.Context, account string) error {
	_, err := c.rpc.Remove(ctx, &proto.RemoveRequest{Account: account})
	return err
}

// sendingServer implements the gRPC service SendingPlatform. newPlatform creates the author's
// implementation for a connection.
type sendingServer struct {
	proto.UnimplementedSendingPlatformServer
	newPlatform func(Connection) (ports.SendingPlatform, error)
}

func (s *sendingServer) Check(ctx context.Context, req *proto.SendingCheckRequest) (*proto.SendingReach, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (integration.Reach, error) { return p.Check(ctx) }, reachToProto)
}

func (s *sendingServer) Account(ctx context.Context, req *proto.SendingAccountRequest) (*proto.SendingAccount, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (integration.Account, error) {
		return p.Account(ctx, req.GetAddress())
	}, accountToProto)
}

func (s *sendingServer) Accounts(ctx context.Context, req *proto.SendingAccountsRequest) (*proto.SendingPage, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (integration.Page, error) {
		return p.Accounts(ctx, req.GetCursor())
	}, pageToProto)
}

func (s *sendingServer) StartSignIn(ctx context.Context, req *proto.StartSignInRequest) (*proto.SendingSignIn, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (integration.SignIn, error) {
		return p.StartSignIn(ctx, req.GetAddress())
	}, sessionToProto)
}

func (s *sendingServer) SignIn(ctx context.Context, req *proto.SendingSignInRequest) (*proto.SendingProgress, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (integration.Progress, error) {
		return p.SignIn(ctx, req.GetSession())
	}, signInProgressToProto)
}

func (s *sendingServer) Remove(ctx context.Context, req *proto.RemoveRequest) (*proto.Removed, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.SendingPlatform) (struct{}, error) {
		return struct{}{}, p.Remove(ctx, req.GetAccount())
	}, func(struct{}) *proto.Removed { return &proto.Removed{} })
}
