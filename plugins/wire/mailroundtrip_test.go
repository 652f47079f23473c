// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

var connection = Connection{
	Settings: map[string]string{"client_id": "app-1", "empty": ""},
	Secrets:  map[string]secret.Text{"client_secret": secret.New("s3cret-\xff\x00-bytes")},
}

// mailOverWire serves p with gRPC in memory and returns a client of that server. The server calls
// onConnection with the connection of each call. The client calls onDone with the error of each
// call. Both functions may be nil.
func mailOverWire(t *testing.T, p ports.MailPlatform, onConnection func(Connection), onDone func(error)) ports.MailPlatform {
	t.Helper()
	server := newServer(slog.New(slog.DiscardHandler), Description{})
	proto.RegisterMailPlatformServer(server, &mailServer{newPlatform: func(c Connection) (ports.MailPlatform, error) {
		if onConnection != nil {
			onConnection(c)
		}
		return p, nil
	}})
	conn := connectInMemory(t, server)
	return MailClient(func(context.Context, ...secret.Text) (Session, error) {
		return Session{Process: &Process{conn: conn}, Connection: connection, Done: onDone}, nil
	})
}

// connectInMemory starts server and returns a connection in memory to the server.
func connectInMemory(t *testing.T, server *grpc.Server) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// assertSameAnswer checks that a method of remote and of direct returns the same values.
func assertSameAnswer(t *testing.T, method string, args []reflect.Value, remote, direct any) {
	t.Helper()
	got := plainValues(reflect.ValueOf(remote).MethodByName(method).Call(args))
	want := plainValues(reflect.ValueOf(direct).MethodByName(method).Call(args))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer of %s (-direct +wire):\n%s", method, diff)
	}
}

// TestEveryMailMethodCrossesTheWire calls each method of MailPlatform and MailTenant, except For,
// over the wire and directly. Both calls must be recorded and answered equally.
func TestEveryMailMethodCrossesTheWire(t *testing.T) {
	served := &recordingPlatform{}
	platform := mailOverWire(t, served, nil, nil)
	direct := &recordingPlatform{}
	methods := 0
	for _, pair := range []struct{ remote, direct any }{
		{platform, direct},
		{platform.For("t-1"), direct.For("t-1")},
	} {
		port := reflect.TypeFor[ports.MailPlatform]()
		if _, ok := pair.remote.(ports.MailTenant); ok {
			port = reflect.TypeFor[ports.MailTenant]()
		}
		for m := range port.Methods() {
			if m.Name == "For" {
				continue // it makes no call
			}
			methods++
			t.Run(m.Name, func(t *testing.T) {
				args := arguments(t, m.Type)
				assertSameAnswer(t, m.Name, args, pair.remote, pair.direct)
				if served.lastCall != direct.lastCall || !strings.HasPrefix(served.lastCall, m.Name) {
					t.Errorf("over the wire, the platform received\n%s\nwant the same as in a direct call:\n%s", served.lastCall, direct.lastCall)
				}
			})
		}
	}
	if methods < 30 {
		t.Fatalf("%d methods were called, want at least 30", methods)
	}
}

// arguments returns arguments for a method m. Each text contains the position of its argument, and
// a character that is not ASCII.
func arguments(t *testing.T, m reflect.Type) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < m.NumIn(); i++ {
		v := reflect.New(m.In(i)).Elem()
		fill(v, fmt.Sprintf("argument %d ✓", i))
		args = append(args, v)
	}
	return args
}

// listedStates has a valid value of each type whose values docs/plugin-protocol.md lists.
var listedStates = map[reflect.Type]string{
	reflect.TypeFor[tenant.Bootstrap]():         string(tenant.BootstrapFailed),
	reflect.TypeFor[tenant.BootstrapStep]():     string(tenant.StepGrantRole),
	reflect.TypeFor[tenant.SMTPAuth]():          string(tenant.SMTPAuthRefused),
	reflect.TypeFor[integration.SignInState]():  string(integration.SignInExpired),
	reflect.TypeFor[integration.AccountState](): string(integration.AccountFailed),
}

// fill sets v and all its fields to values that are not zero. Most texts contain the path of their
// field after label, so that a test notices swapped fields.
func fill(v reflect.Value, label string) {
	switch v.Interface().(type) {
	case secret.Text:
		v.Set(reflect.ValueOf(secret.New(label + " secret")))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 5, 1, 10, 0, 0, 123456000, time.UTC)))
		return
	case tenant.Bootstrap, tenant.BootstrapStep, tenant.SMTPAuth, integration.SignInState, integration.AccountState:
		v.SetString(listedStates[v.Type()])
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(label)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(label) + 1))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), fmt.Sprintf("%s[%d]", label, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, label+"[]")
		v.SetMapIndex(reflect.ValueOf(label), element)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	default:
		panic("fill does not know " + v.Type().String())
	}
}

func plainValues(values []reflect.Value) []any {
	var converted []any
	for _, v := range values {
		converted = append(converted, v.Interface())
	}
	return converted
}

// TestInvalidTimeBecomesTheZeroTime checks invalid times, such as the year 58300 from a plugin that
// confuses milliseconds and seconds. The host could not read back such a time after storing it. It
// replaces a zero time with its own time.
func TestInvalidTimeBecomesTheZeroTime(t *testing.T) {
	created := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for at, want := range map[*timestamppb.Timestamp]time.Time{
		timestamppb.New(created):             created,
		{Seconds: created.UnixMilli()}:       {},
		{Seconds: -created.UnixMilli()}:      {},
		{Seconds: created.Unix(), Nanos: -1}: {},
		nil:                                  {},
	} {
		if got := mailboxFromProto(&proto.SharedMailbox{CreatedAt: at}).CreatedAt; !got.Equal(want) {
			t.Errorf("a mailbox created at %v is converted to %v, want %v", at, got, want)
		}
	}
}

func TestConnectionCrossesTheWire(t *testing.T) {
	var received Connection
	platform := mailOverWire(t, &recordingPlatform{}, func(c Connection) { received = c }, nil)
	if _, err := platform.For("t").Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(connection, received, cmp.Comparer(func(a, b secret.Text) bool { return a.Reveal() == b.Reveal() })); diff != "" {
		t.Fatalf("the connection (-sent +received):\n%s", diff)
	}
	if received.Fingerprint() != connection.Fingerprint() {
		t.Fatal("the received connection has a new fingerprint, want that of the sent connection")
	}
}

func TestRequestIDAndDeadlineCrossTheWire(t *testing.T) {
	var requestID string
	var timeLeft time.Duration
	platform := mailOverWire(t, &recordingPlatform{profile: func(ctx context.Context) (tenant.Profile, error) {
		requestID = ports.RequestID(ctx)
		deadline, _ := ctx.Deadline()
		timeLeft = time.Until(deadline)
		return tenant.Profile{BuiltinDomain: "contoso.mail.test"}, nil
	}}, nil, nil)
	ctx, cancel := context.WithTimeout(ports.WithRequestID(t.Context(), "req-7"), time.Minute)
	defer cancel()
	if _, err := platform.For("t").Profile(ctx); err != nil {
		t.Fatal(err)
	}
	if requestID != "req-7" || timeLeft <= 0 || timeLeft > time.Minute {
		t.Fatalf("the plugin received the request id %q and %s until the deadline, want req-7 and at most 1m", requestID, timeLeft)
	}
}

func TestDescriptionCrossesTheWire(t *testing.T) {
	var want Description
	fill(reflect.ValueOf(&want).Elem(), "d")
	if diff := cmp.Diff(want, descriptionFromProto(descriptionToProto(want))); diff != "" {
		t.Fatalf("the description (-want +got):\n%s", diff)
	}
}
