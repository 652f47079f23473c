// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParseTypesAcceptsOnlyKnownTypes(t *testing.T) {
	for _, names := range [][]string{{"*"}, {"domain.added"}, {"domain.added", "webhook.disabled"}} {
		types, err := webhook.ParseTypes(names)
		if back := (webhook.Webhook{Types: types}).TypeNames(); err != nil || !slices.Equal(back, names) {
			t.Errorf("%q: got %q, %v; want the same names", names, back, err)
		}
	}
	for _, names := range [][]string{nil, {}, {""}, {"domain.*"}, {"*", "domain.added"}, {"domain.added", "domain.added"}, {"webhook.test"}, {"Domain.added"}} {
		if _, err := webhook.ParseTypes(names); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%q: got %v, want invalid_request", names, err)
		}
	}
}

func TestWantsSelectsByTypeAndTenant(t *testing.T) {
	tenantOne, tenantTwo := tenant.GUID("1"), tenant.GUID("2")
	for _, c := range []struct {
		w      webhook.Webhook
		wanted []bool // domain.added of tenantOne, domain.added of tenantTwo, key.created without a tenant
	}{
		{webhook.Webhook{}, []bool{true, true, true}},
		{webhook.Webhook{Types: []event.Type{event.DomainAdded}}, []bool{true, true, false}},
		{webhook.Webhook{Tenants: []tenant.GUID{tenantOne}}, []bool{true, false, false}},
		{webhook.Webhook{Types: []event.Type{event.KeyCreated}, Tenants: []tenant.GUID{tenantOne}}, []bool{false, false, false}},
	} {
		got := []bool{c.w.Wants(event.DomainAdded, tenantOne), c.w.Wants(event.DomainAdded, tenantTwo), c.w.Wants(event.KeyCreated, "")}
		if !slices.Equal(got, c.wanted) {
			t.Errorf("%+v: got %v, want %v", c.w, got, c.wanted)
		}
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	secrets := webhook.Secrets{Current: []byte("a")}.Rotate([]byte("b"), time.Hour, now)
	for at, want := range map[time.Duration]string{0: "ba", time.Hour - 1: "ba", time.Hour: "b"} {
		if got := string(slices.Concat(secrets.ValidAt(now.Add(at))...)); got != want {
			t.Errorf("after %s: the secrets are %q, want %q", at, got, want)
		}
	}
	if secrets := secrets.Rotate([]byte("c"), 0, now); string(slices.Concat(secrets.ValidAt(now)...)) != "c" || secrets.Previous != nil {
		t.Errorf("without an overlap: got %+v, want only the new secret", secrets)
	}
}

func TestResultsChangeTheWebhook(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		before       webhook.Webhook
		eventType    event.Type
		status       int
		at           time.Time
		failingSince time.Time
		wantReason   webhook.Reason
	}{
		"first failure":                              {webhook.Webhook{Status: webhook.Enabled}, event.DomainAdded, 500, start, start, ""},
		"second failure":                             {webhook.Webhook{Status: webhook.Enabled, FailingSince: start}, event.DomainAdded, 500, start.Add(time.Hour), start, ""},
		"five days of failures":                      {webhook.Webhook{Status: webhook.Enabled, FailingSince: start}, event.DomainAdded, 500, start.Add(webhook.DisableAfter), start, webhook.ReasonFailing},
		"a success after five days of failures":      {webhook.Webhook{Status: webhook.Enabled, FailingSince: start}, event.DomainAdded, 200, start.Add(webhook.DisableAfter), time.Time{}, ""},
		"a failed test":                              {webhook.Webhook{Status: webhook.Enabled}, webhook.TestType, 500, start, time.Time{}, ""},
		"a failed test later":                        {webhook.Webhook{Status: webhook.Enabled, FailingSince: start}, webhook.TestType, 500, start.Add(webhook.DisableAfter), start, ""},
		"a test that succeeds":                       {webhook.Webhook{Status: webhook.Enabled, FailingSince: start}, webhook.TestType, 200, start, time.Time{}, ""},
		"the endpoint is gone":                       {webhook.Webhook{Status: webhook.Enabled}, event.DomainAdded, 410, start, start, webhook.ReasonGone},
		"the endpoint of a disabled webhook is gone": {webhook.Webhook{Status: webhook.Disabled}, webhook.TestType, 410, start, time.Time{}, ""},
	} {
		r := webhook.Response{StatusCode: c.status}
		after, reason := c.before.AfterTry(webhook.Delivery{EventType: c.eventType}.AfterTry(r, c.at, 0), r.IsGone())
		status := c.before.Status
		if c.wantReason != "" {
			status = webhook.Disabled
		}
		if !after.FailingSince.Equal(c.failingSince) || reason != c.wantReason || after.Status != status {
			t.Errorf("%s: got %s, failing since %v, reason %q; want %s, %v, %q", name, after.Status, after.FailingSince, reason, status, c.failingSince, c.wantReason)
		}
	}
}
