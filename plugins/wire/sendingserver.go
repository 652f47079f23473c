// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// sendingServer calls the author's code.
type sendingServer struct {
	proto.UnimplementedSendingPlatformServer
	platform func(Connection) (ports.SendingPlatform, error)
}

// sent makes the platform for one call and runs it.
func sent[T, A any](s *sendingServer, c *proto.Connection, do func(ports.SendingPlatform) (T, error), out func(T) *A) (*A, error) {
	p, err := s.platform(connectionIn(c))
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := do(p)
	if err != nil {
		return nil, toStatus(err)
	}
	return out(t), nil
}

func (s *sendingServer) Check(ctx context.Context, q *proto.SendingCheckRequest) (*proto.SendingReach, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (integration.Reach, error) { return p.Check(ctx) }, reachOut)
}

func (s *sendingServer) Account(ctx context.Context, q *proto.SendingAccountRequest) (*proto.SendingAccount, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (integration.Account, error) {
		return p.Account(ctx, q.GetAddress())
	}, accountOut)
}

func (s *sendingServer) Accounts(ctx context.Context, q *proto.SendingAccountsRequest) (*proto.SendingPage, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (integration.Page, error) {
		return p.Accounts(ctx, q.GetCursor())
	}, pageOut)
}

func (s *sendingServer) StartSignIn(ctx context.Context, q *proto.StartSignInRequest) (*proto.SendingSignIn, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (integration.SignIn, error) {
		return p.StartSignIn(ctx, q.GetAddress())
	}, sessionOut)
}

func (s *sendingServer) SignIn(ctx context.Context, q *proto.SendingSignInRequest) (*proto.SendingProgress, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (integration.Progress, error) {
		return p.SignIn(ctx, q.GetSession())
	}, signInProgressOut)
}

func (s *sendingServer) Remove(ctx context.Context, q *proto.RemoveRequest) (*proto.Removed, error) {
	return sent(s, q.GetConnection(), func(p ports.SendingPlatform) (struct{}, error) {
		return struct{}{}, p.Remove(ctx, q.GetAccount())
	}, func(struct{}) *proto.Removed { return &proto.Removed{} })
}
