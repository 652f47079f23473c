// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// TestErrorsAndPlatformHideTheToken checks that neither the printed platform nor the error for a
// refused token contains the token.
func TestErrorsAndPlatformHideTheToken(t *testing.T) {
	env := newInstance(t)
	const token = "7|canaryToken"
	platform := env.platformFor(token, "")
	_, err := platform.Check(t.Context())
	if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Code.Name != "access_denied" {
		t.Fatalf("got %v, want refused with access_denied", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %+v", err, err, err, platform); strings.Contains(text, "canary") {
		t.Error("the error or the printed platform contains the token")
	}
}

// TestErrorStatusesAreClassified covers errors in Laravel's format, and answers of a proxy and of a
// different service.
func TestErrorStatusesAreClassified(t *testing.T) {
	for status, want := range map[int]sdk.Outcome{
		401: {Kind: sdk.Refused, Cause: "emailbison 401"}, 402: {Kind: sdk.Refused, Cause: "plan_inactive"}, 403: {Kind: sdk.Refused, Cause: "emailbison 403"},
		404: {Kind: sdk.Broken}, 422: {Kind: sdk.Refused, Cause: "emailbison 422"}, 429: {Kind: sdk.Throttled, RetryAfter: 7 * time.Second},
		500: {Kind: sdk.Broken}, 503: {Kind: sdk.Down}, 504: {Kind: sdk.Unknown}, 302: {Kind: sdk.Broken},
	} {
		env := newInstance(t)
		fault := map[string]any{"kind": "status", "status": status}
		if status == 429 {
			fault["retry_after"] = 7
		}
		env.FailOnce(fault)
		_, err := env.platformFor(simulator.Token, "").Accounts(t.Context(), "")
		if result := sdk.OutcomeOf(err); result.Kind != want.Kind || want.Cause != "" && result.Cause != want.Cause || result.RetryAfter != want.RetryAfter {
			t.Errorf("status %d: %+v, want %+v", status, result, want)
		}
	}
	env := newInstance(t)
	for _, want := range []sdk.Outcome{{Kind: sdk.Broken}, {Kind: sdk.Refused}} {
		fault := map[string]any{"kind": "html", "status": 403} // a filter in front of the instance
		if want.Kind == sdk.Refused {
			fault = map[string]any{"kind": "status", "status": 404} // the host runs a different service
		}
		env.FailOnce(fault)
		if _, err := env.platformFor(simulator.Token, "").Check(t.Context()); sdk.OutcomeOf(err).Kind != want.Kind {
			t.Errorf("fault %v: %v, want %s", fault, err, want.Kind)
		}
	}
}
