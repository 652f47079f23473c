// SPDX-License-Identifier: Apache-2.0

package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

func TestUnwrapReturnsPublishedError(t *testing.T) {
	for _, tc := range []struct {
		name           string
		err            outcome.Error
		wantCode       fault.Code
		wantRetryAfter time.Duration
		wantUnchanged  bool
	}{
		{"refused", outcome.Error{Kind: outcome.Refused, Code: fault.DomainUnavailable}, fault.DomainUnavailable, 0, true},
		{"not ready, with a code", outcome.Error{Kind: outcome.NotReady, Code: fault.DKIMNotReady}, fault.DKIMNotReady, 0, true},
		{"not ready, without a code", outcome.Error{Kind: outcome.NotReady}, fault.ProviderTimeout, 0, true},
		{"throttled", outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Minute}, fault.ProviderUnavailable, time.Minute, true},
		{"down, without a wait", outcome.Error{Kind: outcome.Down}, fault.ProviderUnavailable, 10 * time.Second, true},
		{"broken", outcome.Error{Kind: outcome.Broken}, fault.ProviderError, 0, false},
		{"unknown", outcome.Error{Kind: outcome.Unknown}, fault.ProviderTimeout, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := fmt.Errorf("add domain: %w", &tc.err)
			seen := fault.ErrorOf(err)
			if seen.Code != tc.wantCode || seen.RetryAfter != tc.wantRetryAfter || seen.Detail == "" && tc.err.Kind > outcome.NotReady {
				t.Fatalf("the caller sees %+v, want %s with RetryAfter %s", seen, tc.wantCode.Name, tc.wantRetryAfter)
			}
			if outcome.KindOf(err) != tc.err.Kind || outcome.ChangedNothing(err) != tc.wantUnchanged {
				t.Fatalf("the kind is %s and ChangedNothing %t, want %s and %t", outcome.KindOf(err), outcome.ChangedNothing(err), tc.err.Kind, tc.wantUnchanged)
			}
		})
	}
}

func TestOtherErrorsHaveNoKnownOutcome(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, errors.New("plugin died")} {
		if outcome.KindOf(err) != 0 || outcome.ChangedNothing(err) {
			t.Errorf("%v: got the kind %s and ChangedNothing %t, want no kind and false", err, outcome.KindOf(err), outcome.ChangedNothing(err))
		}
	}
	if outcome.KindOf(nil) != 0 {
		t.Error("KindOf(nil) is not 0")
	}
}

func TestEveryKindHasItsName(t *testing.T) {
	for kind, want := range map[outcome.Kind]string{
		0: "done", outcome.Refused: "refused", outcome.NotReady: "not_ready", outcome.Throttled: "throttled",
		outcome.Down: "down", outcome.Broken: "broken", outcome.Unknown: "unknown",
	} {
		if got := kind.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestErrorTextHasCause(t *testing.T) {
	err := &outcome.Error{Kind: outcome.Broken, Cause: "InternalServerError", Detail: "add domain"}
	if got := err.Error(); got != "provider broken (InternalServerError): add domain" {
		t.Errorf("got %q, want a text with the cause", got)
	}
	err.Cause = ""
	if got := err.Error(); got != "provider broken: add domain" {
		t.Errorf("got %q, want a text without a cause", got)
	}
}
