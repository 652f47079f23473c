// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// recordingSending is a sending platform that records its last call. It answers with err, or with a
// value in every field.
type recordingSending struct {
	lastCall string
	err      error
}

// recordAndAnswer records a call. It returns s.err, or an answer that contains the text of the
// call.
func recordAndAnswer[T any](s *recordingSending, call string) (T, error) {
	s.lastCall = call
	if s.err != nil {
		var zero T
		return zero, s.err
	}
	return newFilled[T]("answer of " + call)
}

func (s *recordingSending) Check(context.Context) (integration.Reach, error) {
	return recordAndAnswer[integration.Reach](s, "Check")
}

func (s *recordingSending) Account(_ context.Context, address string) (integration.Account, error) {
	a, err := recordAndAnswer[integration.Account](s, "Account "+address)
	a.Address = address
	return a, err
}

func (s *recordingSending) Accounts(_ context.Context, cursor string) (integration.Page, error) {
	return recordAndAnswer[integration.Page](s, "Accounts "+cursor)
}

func (s *recordingSending) StartSignIn(_ context.Context, address string) (integration.SignIn, error) {
	return recordAndAnswer[integration.SignIn](s, "StartSignIn "+address)
}

func (s *recordingSending) SignIn(_ context.Context, session string) (integration.Progress, error) {
	return recordAndAnswer[integration.Progress](s, "SignIn "+session)
}

func (s *recordingSending) Remove(_ context.Context, account string) error {
	s.lastCall = "Remove " + account
	return s.err
}

// sendingOverWire serves p with gRPC in memory and returns a client of that server. The server
// calls onConnection with the connection of each call.
func sendingOverWire(t *testing.T, p ports.SendingPlatform, onConnection func(Connection)) ports.SendingPlatform {
	t.Helper()
	server := newServer(slog.New(slog.DiscardHandler), Description{})
	proto.RegisterSendingPlatformServer(server, &sendingServer{newPlatform: func(c Connection) (ports.SendingPlatform, error) {
		onConnection(c)
		return p, nil
	}})
	conn := connectInMemory(t, server)
	return SendingClient(func(context.Context, ...secret.Text) (Session, error) {
		return Session{Process: &Process{conn: conn}, Connection: connection}, nil
	})
}

func TestEverySendingMethodCrossesTheWire(t *testing.T) {
	served, direct := &recordingSending{}, &recordingSending{}
	var received Connection
	remote := sendingOverWire(t, served, func(c Connection) { received = c })
	methods := 0
	for m := range reflect.TypeFor[ports.SendingPlatform]().Methods() {
		methods++
		t.Run(m.Name, func(t *testing.T) {
			args := arguments(t, m.Type)
			assertSameAnswer(t, m.Name, args, remote, direct)
			if served.lastCall != direct.lastCall || !strings.HasPrefix(served.lastCall, m.Name) {
				t.Errorf("the platform behind the wire received\n%s, want, as in a direct call,\n%s", served.lastCall, direct.lastCall)
			}
		})
	}
	if methods != 6 || received.Fingerprint() != connection.Fingerprint() {
		t.Fatalf("%d methods were called, want 6; the plugin received a connection with the settings %v, want %v", methods, received.Settings, connection.Settings)
	}
}

// TestEmptyAnswersCrossTheWire checks that the client receives an absent account, a session without
// an id and an expiry, and an empty page.
func TestEmptyAnswersCrossTheWire(t *testing.T) {
	remote := sendingOverWire(t, emptyPlatform{}, func(Connection) {})
	if account, err := remote.Account(t.Context(), "a@a.test"); account != (integration.Account{}) || account.Exists() || err != nil {
		t.Errorf("an absent account arrives as %+v, %v, want the zero account", account, err)
	}
	if session, err := remote.StartSignIn(t.Context(), "a@a.test"); !session.ExpiresAt.IsZero() || session.ID != "" || err != nil {
		t.Errorf("a session without an id and an expiry arrives as %v, %v, want neither", session, err)
	}
	if page, err := remote.Accounts(t.Context(), ""); page.Accounts != nil || page.Next != "" || err != nil {
		t.Errorf("an empty page arrives as %v, %v, want no accounts and no next page", page, err)
	}
}

// emptyPlatform answers without accounts, and with sign-ins that have only a URL.
type emptyPlatform struct{ ports.SendingPlatform }

func (emptyPlatform) Account(context.Context, string) (integration.Account, error) {
	return integration.Account{}, nil
}

func (emptyPlatform) Accounts(context.Context, string) (integration.Page, error) {
	return integration.Page{}, nil
}

func (emptyPlatform) StartSignIn(context.Context, string) (integration.SignIn, error) {
	return integration.SignIn{URL: "https://login.example"}, nil
}

func TestSendingRefusalsCrossTheWire(t *testing.T) {
	served := &recordingSending{err: &outcome.Error{Kind: outcome.Refused, Code: fault.CapabilityMissing, Cause: "no microsoft_oauth"}}
	remote := sendingOverWire(t, served, func(Connection) {})
	for method, err := range map[string]error{
		"StartSignIn": errorOf(remote.StartSignIn(t.Context(), "a@a.test")),
		"SignIn":      errorOf(remote.SignIn(t.Context(), "s")),
		"Remove":      remote.Remove(t.Context(), "a"),
	} {
		if want := served.err; outcome.KindOf(err) != outcome.Refused || err.Error() != want.Error() {
			t.Errorf("%s: got %v, want the refusal %v", method, err, want)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }
