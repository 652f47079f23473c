// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// scriptedSending is a sending platform that remembers what it was asked and
// answers with every field filled in, or with err.
type scriptedSending struct {
	last string
	err  error
}

func scriptedAnswer[T any](s *scriptedSending, asked string) (T, error) {
	s.last = asked
	if s.err != nil {
		var none T
		return none, s.err
	}
	return filled[T]("answer of " + asked)
}

func (s *scriptedSending) Check(context.Context) (integration.Reach, error) {
	return scriptedAnswer[integration.Reach](s, "Check")
}

func (s *scriptedSending) Account(_ context.Context, address string) (integration.Account, error) {
	return scriptedAnswer[integration.Account](s, "Account "+address)
}

func (s *scriptedSending) Accounts(_ context.Context, cursor string) (integration.Page, error) {
	return scriptedAnswer[integration.Page](s, "Accounts "+cursor)
}

func (s *scriptedSending) StartSignIn(_ context.Context, address string) (integration.SignIn, error) {
	return scriptedAnswer[integration.SignIn](s, "StartSignIn "+address)
}

func (s *scriptedSending) SignIn(_ context.Context, session string) (integration.Progress, error) {
	return scriptedAnswer[integration.Progress](s, "SignIn "+session)
}

func (s *scriptedSending) Remove(_ context.Context, account string) error {
	s.last = "Remove " + account
	return s.err
}

// sendingBehind puts a sending platform behind the wire, in this process.
func sendingBehind(t *testing.T, p ports.SendingPlatform, seen func(Connection)) ports.SendingPlatform {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	server := newServer(slog.New(slog.DiscardHandler))
	proto.RegisterSendingPlatformServer(server, &sendingServer{platform: func(c Connection) (ports.SendingPlatform, error) {
		seen(c)
		return p, nil
	}})
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return Sending(func(context.Context, ...secret.Text) (Session, error) {
		return Session{Process: &Process{conn: conn}, Connection: connection}, nil
	})
}

func TestEverySendingMethodCrosses(t *testing.T) {
	author, direct := &scriptedSending{}, &scriptedSending{}
	var got Connection
	far := sendingBehind(t, author, func(c Connection) { got = c })
	methods := 0
	for m := range reflect.TypeFor[ports.SendingPlatform]().Methods() {
		methods++
		t.Run(m.Name, func(t *testing.T) {
			args := arguments(t, m.Type)
			got := results(reflect.ValueOf(far).MethodByName(m.Name).Call(args))
			want := results(reflect.ValueOf(direct).MethodByName(m.Name).Call(args))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-direct +wire):\n%s", diff)
			}
			if author.last != direct.last || !strings.HasPrefix(author.last, m.Name) {
				t.Errorf("the author was asked\n%s, directly\n%s", author.last, direct.last)
			}
		})
	}
	if methods != 6 || got.Fingerprint() != connection.Fingerprint() {
		t.Fatalf("%d methods walked, the port has 6; the connection arrived: %v", methods, got.Settings)
	}
}

// An account that is not there, and a session without an end, come across as
// what they are.
func TestNothingCrossesAsNothing(t *testing.T) {
	far := sendingBehind(t, nothingThere{}, func(Connection) {})
	if a, err := far.Account(t.Context(), "a@a.test"); a != (integration.Account{}) || a.There() || err != nil {
		t.Errorf("an absent account: %+v, %v", a, err)
	}
	if s, err := far.StartSignIn(t.Context(), "a@a.test"); !s.ExpiresAt.IsZero() || s.ID != "" || err != nil {
		t.Errorf("a session without an id or end: %v, %v", s, err)
	}
	if p, err := far.Accounts(t.Context(), ""); p.Accounts != nil || p.Next != "" || err != nil {
		t.Errorf("an empty page: %v, %v", p, err)
	}
}

type nothingThere struct{ ports.SendingPlatform }

func (nothingThere) Account(context.Context, string) (integration.Account, error) {
	return integration.Account{}, nil
}

func (nothingThere) Accounts(context.Context, string) (integration.Page, error) {
	return integration.Page{}, nil
}

func (nothingThere) StartSignIn(context.Context, string) (integration.SignIn, error) {
	return integration.SignIn{URL: "https://login.example"}, nil
}

func TestRefusalsOfSendingPlatformsCross(t *testing.T) {
	author := &scriptedSending{err: &outcome.Error{Kind: outcome.Refused, Code: fault.CapabilityMissing, Cause: "no microsoft_oauth"}}
	far := sendingBehind(t, author, func(Connection) {})
	for what, err := range map[string]error{
		"start":  second(far.StartSignIn(t.Context(), "a@a.test")),
		"sign":   second(far.SignIn(t.Context(), "s")),
		"remove": far.Remove(t.Context(), "a"),
	} {
		if want := author.err; outcome.Of(err) != outcome.Refused || err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
