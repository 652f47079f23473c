// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
)

// TestOutcomesCrossTheWireUnchanged checks that the caller receives each outcome exactly as the
// plugin returned it.
func TestOutcomesCrossTheWireUnchanged(t *testing.T) {
	var returned error
	platform := mailOverWire(t, &recordingPlatform{profile: func(context.Context) (tenant.Profile, error) {
		return tenant.Profile{}, returned
	}}, nil, nil)
	rapid.Check(t, func(rt *rapid.T) {
		want := &outcome.Error{
			Kind:       outcome.Kind(rapid.IntRange(int(outcome.Refused), int(outcome.Unknown)).Draw(rt, "kind")),
			Detail:     rapid.StringMatching(`[ -~é]{0,80}`).Draw(rt, "detail"),
			Cause:      rapid.StringMatching(`[A-Za-z_]{0,40}`).Draw(rt, "cause"),
			RetryAfter: time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(rt, "retry after")),
		}
		if want.Kind == outcome.Refused || rapid.Bool().Draw(rt, "has code") {
			want.Code = rapid.SampledFrom(fault.All()).Draw(rt, "code")
		}
		returned = fmt.Errorf("while asking: %w", want)
		_, err := platform.For("t").Profile(t.Context())
		var got *outcome.Error
		if !errors.As(err, &got) {
			rt.Fatalf("got %v, want an outcome", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("the outcome (-want +got):\n%s", diff)
		}
	})
}

func TestErrorsOfThePluginAreClassified(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		kind outcome.Kind
		code fault.Code
	}{
		{"a refusal without outcome", fault.DomainNotFound.With("gone"), outcome.Refused, fault.DomainNotFound},
		{"a bare code", fault.AccessDenied, outcome.Refused, fault.AccessDenied},
		{"an unclassified error with a secret", errors.New("token s3cret was refused"), outcome.Broken, fault.ProviderError},
		{"a deadline that passed", fmt.Errorf("get: %w", context.DeadlineExceeded), outcome.Unknown, fault.ProviderTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			platform := mailOverWire(t, &recordingPlatform{profile: func(context.Context) (tenant.Profile, error) {
				return tenant.Profile{}, tc.err
			}}, nil, nil)
			_, err := platform.For("t").Profile(t.Context())
			if outcome.KindOf(err) != tc.kind || !errors.Is(err, tc.code) {
				t.Fatalf("got %v, want %s %s", err, tc.kind, tc.code.Name)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("got %v, want an error without the text of the unclassified error", err)
			}
		})
	}
}

func TestPanicIsReportedAsBrokenWithoutItsText(t *testing.T) {
	platform := mailOverWire(t, &recordingPlatform{profile: func(context.Context) (tenant.Profile, error) { panic("s3cret") }}, nil, nil)
	for range 2 { // the second call shows that the server still runs
		_, err := platform.For("t").Profile(t.Context())
		if outcome.KindOf(err) != outcome.Broken || strings.Contains(err.Error(), "s3cret") {
			t.Fatalf("got %v, want broken, without the text of the panic", err)
		}
	}
}

func TestDeadlineAndCancellationAreUnknownOutcomes(t *testing.T) {
	var doneErr error
	platform := mailOverWire(t, &recordingPlatform{profile: func(ctx context.Context) (tenant.Profile, error) {
		<-ctx.Done()
		return tenant.Profile{}, ctx.Err()
	}}, nil, func(err error) { doneErr = err })

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := platform.For("t").Profile(ctx)
	if outcome.KindOf(err) != outcome.Unknown || outcome.KindOf(doneErr) != outcome.Unknown {
		t.Fatalf("after the deadline: %v, and Session.Done received %v, want unknown for both", err, doneErr)
	}

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = platform.For("t").Profile(ctx)
	if outcome.KindOf(err) != outcome.Unknown || !errors.Is(err, context.Canceled) {
		t.Fatalf("after a cancellation: %v, want unknown and context.Canceled", err)
	}
}

func TestMessagesOverTheSizeLimitAreBroken(t *testing.T) {
	platform := mailOverWire(t, &recordingPlatform{profile: func(context.Context) (tenant.Profile, error) {
		return tenant.Profile{Name: strings.Repeat("x", MaxMessage+1)}, nil
	}}, nil, nil)
	if _, err := platform.For("t").Profile(t.Context()); outcome.KindOf(err) != outcome.Broken {
		t.Fatalf("an answer over the limit: %v, want broken", err)
	}
	if _, err := platform.Granted(t.Context(), strings.Repeat("x", MaxMessage+1)); outcome.KindOf(err) != outcome.Broken {
		t.Fatalf("a request over the limit: %v, want broken", err)
	}
}

func TestTransportStatusesAreClassified(t *testing.T) {
	statusWith := func(o *proto.Outcome) error {
		st, err := status.New(codes.Internal, "x").WithDetails(o)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, tc := range []struct {
		name string
		err  error
		want outcome.Kind
	}{
		{"the process died", status.Error(codes.Unavailable, "error reading from server: EOF"), outcome.Unknown},
		{"the answer was cut off", status.Error(codes.Internal, "unexpected EOF"), outcome.Unknown},
		{"no answer in time", status.Error(codes.DeadlineExceeded, ""), outcome.Unknown},
		{"no status at all", errors.New("odd"), outcome.Unknown},
		{"an answer that is not a message", status.Error(codes.Internal, "grpc: failed to unmarshal the received message: proto: cannot parse"), outcome.Broken},
		{"too large", status.Error(codes.ResourceExhausted, ""), outcome.Broken},
		{"a method that the plugin does not have", status.Error(codes.Unimplemented, ""), outcome.Broken},
		{"an outcome of no kind", statusWith(&proto.Outcome{}), outcome.Broken},
		{"a code that is not published", statusWith(&proto.Outcome{Kind: proto.Outcome_KIND_REFUSED, Code: "made_up"}), outcome.Broken},
		{"a refusal without a code", statusWith(&proto.Outcome{Kind: proto.Outcome_KIND_REFUSED}), outcome.Broken},
		{"a cause of the host", statusWith(&proto.Outcome{Kind: proto.Outcome_KIND_DOWN, Cause: "plugin_missing"}), outcome.Broken},
		{"a cause of the SDK that claims that nothing was sent", statusWith(&proto.Outcome{Kind: proto.Outcome_KIND_DOWN, Cause: CauseUnclassified}), outcome.Broken},
		{"a deadline that the SDK reports", statusWith(&proto.Outcome{Kind: proto.Outcome_KIND_UNKNOWN, Cause: CauseDeadline}), outcome.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := outcome.KindOf(fromStatus(t.Context(), tc.err)); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestClosedConnectionIsNotACancellation checks the cause of a call that ends with codes.Canceled.
// The cause depends on whether the caller cancelled the call.
func TestClosedConnectionIsNotACancellation(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx   context.Context
		cause string
	}{{canceled, CauseCanceled}, {t.Context(), CausePluginExited}} {
		var outcomeErr *outcome.Error
		err := fromStatus(tc.ctx, status.Error(codes.Canceled, "grpc: the client connection is closing"))
		if !errors.As(err, &outcomeErr) || outcomeErr.Kind != outcome.Unknown || outcomeErr.Cause != tc.cause {
			t.Errorf("got %v, want unknown with the cause %s", err, tc.cause)
		}
	}
}

func TestSanitizeBoundsAndCleansText(t *testing.T) {
	if got := sanitize("one\nline\x1b[31m \xff"); got != "one line [31m " {
		t.Fatalf("got %q, want one line without control characters", got)
	}
	if got := sanitize(strings.Repeat("é", MaxText)); len(got) > MaxText {
		t.Fatalf("the text has %d bytes, want at most %d", len(got), MaxText)
	}
}
