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
		if typeNames := (webhook.Webhook{Types: types}).TypeNames(); err != nil || !slices.Equal(typeNames, names) {
			t.Errorf("%q: got %q, %v; want the same names", names, typeNames, err)
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
	for _, tc := range []struct {
		webhook webhook.Webhook
		want    []bool // domain.added of tenantOne, domain.added of tenantTwo, key.created without a tenant
	}{
		{webhook.Webhook{}, []bool{true, true, true}},
		{webhook.Webhook{Types: []event.Type{event.DomainAdded}}, []bool{true, true, false}},
		{webhook.Webhook{Tenants: []tenant.GUID{tenantOne}}, []bool{true, false, false}},
		{webhook.Webhook{Types: []event.Type{event.KeyCreated}, Tenants: []tenant.GUID{tenantOne}}, []bool{false, false, false}},
	} {
		got := []bool{tc.webhook.Wants(event.DomainAdded, tenantOne), tc.webhook.Wants(event.DomainAdded, tenantTwo), tc.webhook.Wants(event.KeyCreated, "")}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v, want %v", tc.webhook, got, tc.want)
		}
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	secrets := webhook.Secrets{Current: []byte("a")}.Rotate([]byte("b"), time.Hour, now)
	for elapsed, want := range map[time.Duration]string{0: "ba", time.Hour - 1: "ba", time.Hour: "b"} {
		if got := string(slices.Concat(secrets.ValidAt(now.Add(elapsed))...)); got != want {
			t.Errorf("after %s: the secrets are %q, want %q", elapsed, got, want)
		}
	}
	if secrets := secrets.Rotate([]byte("c"), 0, now); string(slices.Concat(secrets.ValidAt(now)...)) != "c" || secrets.Previous != nil {
		t.Errorf("without an overlap: got %+v, want only the new secret", secrets)
	}
}

func TestResultsChangeTheWebhook(t *testing.T) {
	for name, tc := range map[string]struct {
		before           webhook.Webhook
		eventType        event.Type
		statusCode       int
		at               time.Time
		wantFailingSince time.Time
		wantReason       webhook.Reason
	}{
		"first failure":                              {webhook.Webhook{Status: webhook.Enabled}, event.DomainAdded, 500, now, now, ""},
		"second failure":                             {webhook.Webhook{Status: webhook.Enabled, FailingSince: now}, event.DomainAdded, 500, now.Add(time.Hour), now, ""},
		"five days of failures":                      {webhook.Webhook{Status: webhook.Enabled, FailingSince: now}, event.DomainAdded, 500, now.Add(webhook.DisableAfter), now, webhook.ReasonFailing},
		"a success after five days of failures":      {webhook.Webhook{Status: webhook.Enabled, FailingSince: now}, event.DomainAdded, 200, now.Add(webhook.DisableAfter), time.Time{}, ""},
		"a failed test":                              {webhook.Webhook{Status: webhook.Enabled}, webhook.TestType, 500, now, time.Time{}, ""},
		"a failed test later":                        {webhook.Webhook{Status: webhook.Enabled, FailingSince: now}, webhook.TestType, 500, now.Add(webhook.DisableAfter), now, ""},
		"a test that succeeds":                       {webhook.Webhook{Status: webhook.Enabled, FailingSince: now}, webhook.TestType, 200, now, time.Time{}, ""},
		"the endpoint is gone":                       {webhook.Webhook{Status: webhook.Enabled}, event.DomainAdded, 410, now, now, webhook.ReasonGone},
		"the endpoint of a disabled webhook is gone": {webhook.Webhook{Status: webhook.Disabled}, webhook.TestType, 410, now, time.Time{}, ""},
	} {
		response := webhook.Response{StatusCode: tc.statusCode}
		after, reason := tc.before.AfterTry(webhook.Delivery{EventType: tc.eventType}.AfterTry(response, tc.at, 0), response.IsGone())
		wantStatus := tc.before.Status
		if tc.wantReason != "" {
			wantStatus = webhook.Disabled
		}
		if !after.FailingSince.Equal(tc.wantFailingSince) || reason != tc.wantReason || after.Status != wantStatus {
			t.Errorf("%s: got %s, failing since %v, reason %q; want %s, %v, %q", name, after.Status, after.FailingSince, reason, wantStatus, tc.wantFailingSince, tc.wantReason)
		}
	}
}
